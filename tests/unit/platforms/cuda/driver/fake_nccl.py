"""As much of libnccl as is called: the calls are tried, nothing is computed."""

from xladev.platforms.cuda.driver.ranks import SUCCESS


class Function:
    """One function of a library that is not there."""

    def __init__(self, library, name):
        self.library, self.name = library, name

    def __call__(self, *arguments):
        if self.name == "ncclGetErrorString":
            return b"words for %d" % arguments[0]
        self.library.called.append(self.name)
        self.library.arguments[self.name] = arguments
        if self.name == "ncclGetVersion":
            arguments[0]._obj.value = self.library.version
        elif self.name == "ncclCommGetAsyncError":
            arguments[1]._obj.value = self.library.state
        elif self.name == "ncclCommInitRankConfig":
            arguments[0]._obj.value = 77
        return self.library.returns.get(self.name, SUCCESS)


class Library:
    """As much of libnccl as is called; nothing is computed."""

    def __init__(self, version=22000):
        self.version, self.state = version, SUCCESS
        self.called, self.arguments, self.returns = [], {}, {}
        self._functions = {}

    def __getattr__(self, name):
        if name.startswith("nccl"):
            return self._functions.setdefault(name, Function(self, name))
        raise AttributeError(name)
