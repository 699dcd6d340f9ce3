"""Names of variables by which others have a program run what they like: no pattern lets one pass."""

from __future__ import annotations

import pytest

from fable_exec.policy import EnvironmentPolicy, is_injection_name

INJECTION = """
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV PYTHONPATH PYTHONSTARTUP PYTHONHOME
    NODE_OPTIONS NODE_PATH GIT_SSH_COMMAND GIT_CONFIG_GLOBAL PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB IFS PS4 BUN_OPTIONS
    SHELLOPTS BASHOPTS PROMPT_COMMAND ZDOTDIR GCONV_PATH GLIBC_TUNABLES JAVA_TOOL_OPTIONS _JAVA_OPTIONS
    DOTNET_STARTUP_HOOKS LUA_INIT PHPRC PAGER EDITOR LESSOPEN MAKEFLAGS RUSTC_WRAPPER GOFLAGS OPENSSL_CONF
    npm_config_script_shell ld_preload BASH_FUNC_ls%% PATH HOME SSH_ASKPASS CLASSPATH
"""
HARMLESS = """
    LANG LC_ALL TERM CI TZ USER LOGNAME NO_COLOR COLUMNS GOOGLE_CLOUD_PROJECT OPENAI_API_KEY TMPDIR PERLITE HGETS ENVIRONMENT
"""


@pytest.mark.parametrize("name", INJECTION.split())
def test_an_injection_name_passes_only_when_named_in_full(name: str) -> None:
    assert is_injection_name(name)
    wide = tuple(f"{letter}*" for letter in "ABCDEFGHIJKMNOPQRSTUVWXYZ_abdnl")
    assert not EnvironmentPolicy(inherit=wide).inherits(name)
    assert not EnvironmentPolicy(request_names=wide).admits_request(name)
    if "%" not in name:
        named = EnvironmentPolicy(inherit=(name,), request_names=(name,))
        assert named.inherits(name)
        assert named.admits_request(name)
        assert named.injection_names == (name,)


@pytest.mark.parametrize("name", HARMLESS.split())
def test_other_names_pass_by_a_pattern(name: str) -> None:
    assert not is_injection_name(name)
    assert EnvironmentPolicy(inherit=(f"{name[:2]}*",)).inherits(name)
    assert not EnvironmentPolicy(inherit=("LC_*",)).admits_request(name)
    assert not EnvironmentPolicy(inherit=("Q*", f"{name}_")).inherits(name)
