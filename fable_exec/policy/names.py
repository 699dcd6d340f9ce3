"""Names of environment variables: which are well formed, and which make a program run someone else's code.

Sources of the injection list: ld.so(8) and glibc's list for secure execution, dyld(1), bash(1), zsh(1), perlrun(1), ruby(1),
node(1), git(1), the start-up documentation of java and .NET, and sudo's table of variables it removes. The list is a second
fence, not the first: what is not on an allow-list of the policy never reaches a command at all.
"""

from __future__ import annotations

import re

__all__ = [
    "INJECTION_NAMES",
    "INJECTION_PREFIXES",
    "is_environment_name",
    "is_injection_name",
    "pattern_admits",
    "prefix_names_injection",
]

INJECTION_PREFIXES: tuple[str, ...] = (
    "LD_",  # ELF loader: preloaded libraries, audit modules, search paths
    "_RLD",  # the same on IRIX and Tru64 derived loaders
    "LDR_",  # AIX loader
    "DYLD_",  # macOS loader
    "__XPC_DYLD_",
    "BASH_FUNC_",  # functions that bash imports by name
    "__BASH_FUNC",
    "PYTHON",  # PYTHONPATH, PYTHONSTARTUP, PYTHONHOME, PYTHONWARNINGS (imports a class) ...
    "PERL5",
    "PERLLIB",
    "PERLIO",
    "PERL_",
    "RUBYOPT",
    "RUBYLIB",
    "RUBYSHELL",
    "BUNDLE_",
    "GEM_",
    "NODE_",  # NODE_OPTIONS, NODE_PATH, NODE_EXTRA_CA_CERTS, NODE_REPL_EXTERNAL_MODULE ...
    "NPM_CONFIG_",  # script-shell, node-options, prefix
    "YARN_",
    "BUN_",
    "DENO_",
    "GIT_",  # GIT_SSH_COMMAND, GIT_CONFIG_*, GIT_EXEC_PATH, GIT_PAGER, GIT_EXTERNAL_DIFF ...
    "SVN_",
    "LUA_",
    "JAVA_",
    "JDK_",
    "DOTNET_",
    "CORECLR_",
    "COR_",
    "COMPLUS_",
    "CARGO_",
    "RUST",  # RUSTFLAGS, RUSTC_WRAPPER, RUSTDOCFLAGS
    "CGO_",
    "PIP_",
    "UV_",
    "CONDA_",
    "VIRTUALENV_",
    "PYTEST_",  # PYTEST_ADDOPTS, PYTEST_PLUGINS
    "MAVEN_",
    "GRADLE_",
    "OPENSSL_",  # OPENSSL_CONF loads engines and providers
    "GTK_",
    "QT_",
    "FABLE_",  # this library's own settings
)
"""A name that begins with one of these is refused unless the policy names it in full."""

# shells
_SHELLS = """
    ENV BASH_ENV BASHOPTS BASH_LOADABLES_PATH BASH_XTRACEFD SHELLOPTS IFS PS0 PS1 PS2 PS3 PS4 PROMPT_COMMAND CDPATH
    GLOBIGNORE EXECIGNORE FPATH KSH_ENV ZDOTDIR NULLCMD READNULLCMD TMPPREFIX POSIXLY_CORRECT HISTFILE INPUTRC PATH
    PATHEXT SHELL COMSPEC
"""
# the C library and curses
_C_LIBRARY = """
    GCONV_PATH GETCONF_DIR GLIBC_TUNABLES HOSTALIASES LOCALDOMAIN LOCPATH MALLOC_TRACE NLSPATH RESOLV_HOST_CONF
    RES_OPTIONS TZDIR TERMCAP TERMINFO TERMINFO_DIRS TERMPATH SHLIB_PATH LIBPATH NIS_PATH PATH_LOCALE TEXTDOMAIN
    TEXTDOMAINDIR
"""
# programs that tools start
_PROGRAMS = """
    BROWSER EDITOR VISUAL PAGER MANPAGER SYSTEMD_PAGER SYSTEMD_EDITOR SUDO_EDITOR FCEDIT LESS LESSOPEN LESSCLOSE LESSKEY
    LESSKEYIN SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH PDSH_RCMD_TYPE CC CXX CPP FC AR AS LD LDFLAGS
    CFLAGS CXXFLAGS CPPFLAGS MAKE MAKEFLAGS MFLAGS MAKEFILES MAKEOVERRIDES PKG_CONFIG PKG_CONFIG_PATH
    PKG_CONFIG_SYSROOT_DIR CMAKE_TOOLCHAIN_FILE CMAKE_PREFIX_PATH
"""
# options and code that tools read
_TOOLS = """
    TAR_OPTIONS GREP_OPTIONS ZIPOPT UNZIP XZ_OPT XZ_DEFAULTS GZIP ZSTD_CLEVEL CURL_HOME WGETRC ANT_OPTS ANT_ARGS SBT_OPTS
    SCALA_HOME GOFLAGS GOROOT GOPATH GOENV GOBIN GOPROXY GOTOOLCHAIN GOTOOLDIR GOVCS GOSUMDB GONOSUMDB GONOSUMCHECK
    GODEBUG GOAUTH GOCACHEPROG GOEXPERIMENT HG HGRCPATH HGEDITOR HGMERGE HGPLAIN PHPRC PHP_INI_SCAN_DIR R_PROFILE
    R_PROFILE_USER R_ENVIRON R_ENVIRON_USER R_LIBS R_LIBS_USER R_LIBS_SITE R_HOME _JAVA_OPTIONS CLASSPATH TCLLIBPATH
    TCL_LIBRARY AWKPATH AWKLIBPATH GUILE_LOAD_PATH JULIA_LOAD_PATH JULIA_DEPOT_PATH ERL_FLAGS ERL_LIBS ERL_AFLAGS
    ERL_ZFLAGS ELIXIR_ERL_OPTIONS TS_NODE_PROJECT ELECTRON_RUN_AS_NODE VIMINIT EXINIT NVIM_APPNAME EMACSLOADPATH GNUPGHOME
    SSLKEYLOGFILE SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE VK_LAYER_PATH VK_ICD_FILENAMES
    LIBGL_DRIVERS_PATH GIO_EXTRA_MODULES GIO_MODULE_DIR GSETTINGS_SCHEMA_DIR XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME
    XDG_DATA_DIRS HOME DOCKER_HOST DOCKER_CONFIG KUBECONFIG AWS_CONFIG_FILE SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS
"""

INJECTION_NAMES: frozenset[str] = frozenset((_SHELLS + _C_LIBRARY + _PROGRAMS + _TOOLS).split())
"""Single names that are refused unless the policy names them in full. Compared in upper case, as the prefixes are."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.()-]*")  # brackets: ProgramFiles(x86)


def is_environment_name(text: str) -> bool:
    """Whether `text` may name an environment variable here; narrower than what execve(2) would take."""
    return _NAME.fullmatch(text) is not None


def is_injection_name(name: str) -> bool:
    """Whether a variable of this name can make a program load, run or trust something else. Upper and lower case are one."""
    upper = name.upper()
    return upper in INJECTION_NAMES or upper.startswith(INJECTION_PREFIXES)


def prefix_names_injection(prefix: str) -> bool:
    """Whether every name that begins with `prefix` is an injection name, so that a pattern over it could admit nothing."""
    return prefix.upper().startswith(INJECTION_PREFIXES)


def pattern_admits(entries: tuple[str, ...], name: str) -> bool:
    """Whether an allow-list of names and `PREFIX*` patterns admits `name`; a pattern never admits an injection name."""
    if name in entries:
        return True
    if is_injection_name(name):
        return False
    return any(entry.endswith("*") and name.startswith(entry[:-1]) for entry in entries)
