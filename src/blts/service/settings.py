"""What the service is told when it starts: by options of the command line, or by the environment."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import os

from ..errors import ConfigError

VARIABLE = "BLTS_SERVE_SETTINGS"
"""Where the processes of one service read the settings of the process that started them."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a service runs."""

    db: str | None = None
    """The database; None for the variable BLTS_DB, or blts.db in the working folder."""
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    """Processes that answer requests."""
    root_path: str = ""
    """The path under which a proxy shows the service, such as /blts."""
    secure: bool = False
    """Whether people reach the pages by HTTPS, so that cookies are sent by HTTPS alone."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be a number from 0 to 65535; got {self.port}.")
        if self.workers < 1:
            raise ConfigError(f"workers must be at least 1; got {self.workers}.")
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            raise ConfigError(f"root_path must begin with / and must not end with it, such as /blts; got {self.root_path!r}.")

    @property
    def beyond_loopback(self) -> bool:
        """Whether other machines could reach the service."""
        if self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name
            return True

    @property
    def address(self) -> str:
        """Where people find the pages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.root_path}"

    def to_environment(self) -> None:
        """Leave these settings to the processes that this one starts."""
        os.environ[VARIABLE] = json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_environment() -> Settings:
        """The settings of the process that started this one."""
        return Settings(**json.loads(os.environ.get(VARIABLE, "{}")))
