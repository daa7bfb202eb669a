"""The command line. Registers the commands and turns a caller's mistake into one line and exit code 2."""

import atexit
import gc
import os
import signal
import sys
import threading
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .commands import demo, image, info, solve, spectrum, table
from .commands._record import command_of
from .version import __version__

UsageError: Any = typer.BadParameter.__base__
HEARD = threading.Event()  # that an interrupt has ended a command
HEARD_SECONDS = 0.2  # in which an interrupt has begun to end what runs, or is sent again


class _Commands(TyperGroup):
    """Typer ends silently on Ctrl-C; a user wants to know that it was heard, and how to go on. It takes a box of six
    lines to say that an option is wrong; here this is one line, too."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except UsageError as error:
            where = error.ctx.command_path if error.ctx else "multigrade"
            message = " ".join(error.format_message().split())
            print(f"multigrade: {message.rstrip('.')}; {where} --help lists what there is", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as interrupt:
            HEARD.set()
            print(f"multigrade: interrupted{interrupt}", file=sys.stderr)
            raise typer.Exit(130) from None


# Names of options before 0.1, which are understood until 0.2: old name, present name.
RENAMED = {"--epochs": "--steps", "--solver": "--optimiser"}


class _Command(TyperCommand):
    """A command that understands old names of its options, and says what they are called now."""

    def parse_args(self, ctx, args):
        known = {name for parameter in self.params for name in parameter.opts}
        return super().parse_args(ctx, [_present_name(argument, known) for argument in args])


def _present_name(argument: str, known: set[str]) -> str:
    name, equals, value = argument.partition("=")
    if name in known or RENAMED.get(name) not in known:
        return argument
    print(f"multigrade: {name} is now called {RENAMED[name]}; the old name goes with version 0.2", file=sys.stderr)
    return RENAMED[name] + equals + value


app = typer.Typer(
    cls=_Commands,
    help="Multi-grade deep learning: fit functions and tables, restore images, look inside training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo.demo, command_of(table.Fit), table.predict, command_of(solve.Solve), command_of(spectrum.Spectrum),
    *map(command_of, (image.Regress, image.Denoise, image.Deblur, image.Inpaint, image.Upsample)),
    info.info,
):  # fmt: skip
    app.command(command.__name__, cls=_Command)(command)

# Commands of other packages: the entry points of this group, functions or records. The laboratory's are known by name,
# so that one that is not installed can be told from one that does not exist.
GROUP = "multigrade.commands"
LABORATORY = ("reproduce", "runs", "claims", "evidence", "report")


def _not_installed(name: str) -> None:
    def command(context: typer.Context) -> None:
        raise ValueError(f"{name} belongs to the laboratory of the paper: pip install multigrade-paper")

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, hidden=True, context_settings=settings, add_help_option=False)(command)


_installed = {point.name: point for point in metadata.entry_points(group=GROUP)}
for name in LABORATORY:
    if name not in _installed:
        _not_installed(name)
for name, point in _installed.items():
    command = point.load()
    app.command(name, cls=_Command)(command_of(command) if isinstance(command, type) else command)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"multigrade {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: errors of use become one line on standard error and exit code 2; --debug shows where they rose."""
    # A batch system that ends a job is answered as Ctrl-C is; signals that are ignored or somebody else's stay so.
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is default:
            signal.signal(number, _interrupt)
    atexit.register(_leave)  # the first to be registered is the last to be called
    try:
        app()
    except (ValueError, TypeError, OSError, MemoryError, RuntimeError, ModuleNotFoundError) as error:
        if "--debug" in sys.argv or not (message := _one_line(error)):
            raise
        print(f"multigrade: {message}", file=sys.stderr)
        sys.exit(2)


def _interrupt(signum: int, frame) -> None:
    """Raise KeyboardInterrupt, and send the signal again a moment later unless it is heard by then.

    JAX drops it now and then while it traces a function. Python drops exceptions in a callback of the garbage
    collector, with a traceback; JAX has one, which is often the first to run after a compilation.
    """
    timer = threading.Timer(HEARD_SECONDS, _send_again, [signum])
    timer.daemon = True
    timer.start()
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code in callbacks:
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave() -> None:
    """End an interrupted process here. XLA may still compute what was interrupted, in threads of its own; taking the
    interpreter down under them crashed one run in thirty."""
    if HEARD.is_set():
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(130)


def _send_again(signum: int) -> None:
    """Signal the main thread, unless it is on its way out: files and workers are then left to what closes them."""
    thread = threading.main_thread().ident
    active = sys._current_exceptions().get(thread or 0)
    error = active[1] if isinstance(active, tuple) else active  # a tuple before Python 3.12
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    if error is None and thread is not None and not HEARD.is_set() and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signum)


def _one_line(error: Exception) -> str | None:
    """What to tell the user; None for what is our mistake and deserves a traceback."""
    from .files import printable  # only now: it takes a quarter of a second to be imported

    text = printable(" ".join(str(error).split()))
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:  # the latter is JAX's
        return "there is not enough memory for this; fewer rows or pixels, or a smaller --width, need less"
    return None if isinstance(error, RuntimeError) else text


if __name__ == "__main__":
    main()
