"""A command is a record: its options are the fields, each written once, and ``run`` does the work."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol, get_type_hints

import typer

# Options of several commands.
TensorBoard = Annotated[Path | None, typer.Option(help="Write TensorBoard files to this folder while it goes.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


class CommandRecord(Protocol):
    """A frozen dataclass whose annotations are those that Typer reads."""

    __dataclass_fields__: Any

    def run(self) -> None: ...


def command_of(record: type[CommandRecord]) -> Callable[..., None]:
    """The function that Typer understands: its parameters are the fields, its name is that of the record in small
    letters, and it runs the record that it is given."""

    def command(**given) -> None:
        record(**given).run()

    hints = get_type_hints(record, include_extras=True)
    fields = sorted(dataclasses.fields(record), key=lambda field: field.default is not dataclasses.MISSING)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields
    ]
    command.__name__, command.__doc__ = record.__name__.lower(), record.__doc__
    command.__annotations__ = {field.name: hints[field.name] for field in fields}
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return command
