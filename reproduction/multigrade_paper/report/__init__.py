"""The report: one page, and figures for print, drawn from saved results and from nothing else.

    page = write_page(Store("runs"), "report.html")

``gather`` reads a store, ``tables`` and ``figures`` say what of the paper there is to show, as plain data, ``page``
writes it as one HTML file that needs no network, ``export`` as files for print. Nothing is ever run again.
"""

from .page import write_page

__all__ = ["write_page"]
