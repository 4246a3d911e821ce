"""What the device has done: for reports, and for tests that count compilations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """Since the process began, or `clear`.

    Attributes:
        recorded: operators.
        compiled: programs.
        ran: calls of programs.
        host: operators that ran on the host, by overload and reason.
    """

    recorded: int = 0
    compiled: int = 0
    ran: int = 0
    host: Counter[tuple[str, str]] = field(default_factory=Counter)

    def clear(self) -> None:
        """Begins anew."""
        self.recorded = self.compiled = self.ran = 0
        self.host.clear()

    def __str__(self) -> str:
        lines = [
            f"{self.recorded} operators recorded, {self.compiled} programs compiled, "
            f"{self.ran} run, {self.host.total()} operators on the host"
        ]
        lines += [f"{count:6} {name}: {why}" for (name, why), count in self.host.most_common()]
        return "\n".join(lines)


COUNTS = Counts()
