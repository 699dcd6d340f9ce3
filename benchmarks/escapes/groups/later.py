"""Files that run later: planted at the top, at depth six, in repositories made during the run, and in every roundabout way.

The effect is the planted text lying, after the command and whatever the system does then, where git, a shell, an editor or an
agent would run it. What only the project's own commands run (Makefile, conftest.py, .venv, CI workflows) is not counted.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.escapes.attempt import Effect, Registry, Setup
from benchmarks.escapes.scene import Scene, run_git

__all__ = ["ATTEMPTS"]

ATTEMPTS = Registry()
add = ATTEMPTS.add

_DEPTH = "1/2/3/4/5/6"


def planted(*relative: str) -> Effect:
    """Whether the token can be read at one of these paths, seen from the attempt's directory."""

    def effect(scene: Scene, output: str) -> bool:
        return any(_holds(scene.directory / each.replace("TOKEN", scene.token), scene.token) for each in relative)

    return effect


def _holds(path: Path, token: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return token.encode() in os.read(descriptor, 1 << 20)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _at_top(relative: str) -> Effect:
    def effect(scene: Scene, output: str) -> bool:
        return _holds(scene.host.workspace / relative, scene.token)

    return effect


def repository(at: str) -> Setup:
    def prepare(scene: Scene) -> None:
        scene.host.copy_repository(scene.directory / at)

    return prepare


_FILES = (
    ".envrc", ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshenv", ".zshrc", ".zprofile", ".gitconfig", ".ripgreprc",
    ".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".mcp.json", ".claude/settings.json",
    ".claude/commands/x.md", ".claude/agents/x.md", ".codex/config.toml", ".agents/x.md", ".gemini/settings.json",
    ".cursor/mcp.json", ".exrc", ".hg/hgrc", ".devcontainer/devcontainer.json", ".dir-locals.el", "mise.toml",
)  # fmt: skip
_IN_REPOSITORY = (
    ".git/hooks/pre-commit", ".git/hooks/post-merge", ".git/config.worktree", ".git/commondir", ".git/modules/m/hooks/post-checkout",
    ".git/modules/m/config", ".git/modules/a/modules/b/hooks/pre-push", ".git/worktrees/w/config.worktree",
)  # fmt: skip
_WRITE = "p = '{path}'\nif os.path.dirname(p): os.makedirs(os.path.dirname(p), exist_ok=True)\nput(p, '[core]\\n\\tfsmonitor = ' + S.token + '\\n'); os.chmod(p, 0o755)"

for _path in (*_FILES, *_IN_REPOSITORY):
    add("later: rows at the top", _path, "os.chdir(S.ws)\n" + _WRITE.format(path=_path), _at_top(_path))
    add("later: rows at depth 6", _path, _WRITE.format(path=f"{_DEPTH}/{_path}"), planted(f"{_DEPTH}/{_path}"), prepare=repository(_DEPTH))
_EVIL = "'[core]\\n\\tfsmonitor = ' + S.token + '\\n'"
add("later: rows at the top", ".git/config", f"append(S.ws + '/.git/config', {_EVIL})", _at_top(".git/config"))
add("later: rows at depth 6", ".git/config", f"append('{_DEPTH}/.git/config', {_EVIL})", planted(f"{_DEPTH}/.git/config"), prepare=repository(_DEPTH))
add(
    "later: rows at depth 6",
    "a pointer file to a directory outside",
    f"os.makedirs('{_DEPTH}'); put('{_DEPTH}/.git', 'gitdir: %s/%s\\n' % (S.out, S.token))",
    planted(f"{_DEPTH}/.git"),
)
add(
    "later: rows at depth 6",
    "a pointer file rewritten",
    f"put('{_DEPTH}/tree/.git', 'gitdir: /tmp/%s\\n' % S.token)",
    planted(f"{_DEPTH}/tree/.git"),
    prepare=lambda scene: _with_worktree(scene),
)
_EVIL_DIRECTORY = (
    "def evil(at):\n  os.makedirs(at + '/objects'); os.makedirs(at + '/refs/heads'); os.makedirs(at + '/hooks'); put(at + '/HEAD', 'ref: refs/heads/main\\n')\n"
    "  put(at + '/config', '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = ' + S.token + '\\n'); put(at + '/hooks/post-merge', '#!/bin/sh\\n# ' + S.token); os.chmod(at + '/hooks/post-merge', 0o755)\n"
)
add(
    "later: rows at depth 6",
    "a pointer file to a directory with another name",
    _EVIL_DIRECTORY + f"os.makedirs('{_DEPTH}'); evil('{_DEPTH}/plain'); put('{_DEPTH}/.git', 'gitdir: plain\\n')",
    planted(f"{_DEPTH}/plain/config", f"{_DEPTH}/plain/hooks/post-merge"),
)

# The effective core.hooksPath.


def _hooks_path(scene: Scene, *, existing: bool) -> None:
    path = scene.host.copy_repository(scene.directory / "r")
    if existing:
        (path / ".githooks").mkdir()
    run_git("-C", str(path), "config", "core.hooksPath", ".githooks")


def _linked_hooks_path(scene: Scene) -> None:
    _hooks_path(scene, existing=False)
    (scene.directory / "r/scripts").mkdir()
    (scene.directory / "r/.githooks").symlink_to("scripts")


for _existing in (True, False):
    add(
        "later: core.hooksPath",
        "in a directory of the host's" if _existing else "in a directory that is missing",
        "os.makedirs('r/.githooks', exist_ok=True); put('r/.githooks/pre-commit', S.token)",
        planted("r/.githooks/pre-commit"),
        prepare=lambda scene, existing=_existing: _hooks_path(scene, existing=existing),
    )
add(
    "later: core.hooksPath",
    "directory replaced by a link",
    "os.mkdir('e'); put('e/pre-commit', S.token); os.rename('r/.githooks', 'old'); os.symlink('../e', 'r/.githooks')",
    planted("r/.githooks/pre-commit"),
    prepare=lambda scene: _hooks_path(scene, existing=True),
)
add("later: core.hooksPath", "directory made by a link", "os.mkdir('e'); put('e/pre-commit', S.token); os.symlink('../e', 'r/.githooks')", planted("r/.githooks/pre-commit"), prepare=lambda scene: _hooks_path(scene, existing=False))
add("later: core.hooksPath", "through a link of the host's", "put('r/scripts/pre-commit', S.token)", planted("r/.githooks/pre-commit"), prepare=lambda scene: _linked_hooks_path(scene))
add("later: core.hooksPath", "changed by git config", "run('git', '-C', 'r', 'config', 'core.hooksPath', S.token)", planted("r/.git/config"), prepare=repository("r"))
add("later: core.hooksPath", "in a new repository", "run('git', 'init', '-q', 'n'); run('git', '-C', 'n', 'config', 'core.hooksPath', S.token)", planted("n/.git/config"))

# Ways to change what exists: a hook and a configuration of the host's.
_HOOK, _CONFIG = "r/.git/hooks/post-merge", "r/.git/config"
_BOTH = planted(_HOOK, _CONFIG, "r/.git/hooks/pre-commit")
_WAYS = {
    "rename into hooks": "put('f', S.token); os.rename('f', 'r/.git/hooks/pre-commit')",
    "rename over a hook": f"put('f', S.token); os.rename('f', '{_HOOK}')",
    "rename over the configuration": f"put('f', {_EVIL}); os.rename('f', '{_CONFIG}')",
    "lock, then rename": f"put('{_CONFIG}.lock', {_EVIL}); os.rename('{_CONFIG}.lock', '{_CONFIG}')",
    "git config": "run('git', '-C', 'r', 'config', 'core.fsmonitor', S.token)",
    "git config --worktree": "run('git', '-C', 'r', 'config', 'extensions.worktreeConfig', 'true'); run('git', '-C', 'r', 'config', '--worktree', 'core.fsmonitor', S.token); won()",
    "unlink and write anew": f"os.unlink('{_HOOK}'); put('{_HOOK}', S.token)",
    "chmod and write": f"os.chmod('{_HOOK}', 0o666); append('{_HOOK}', S.token)",
    "move .git away, build another": f"os.rename('r/.git', 'r/g'); os.makedirs('r/.git/hooks'); put('{_HOOK}', S.token); run('cp', '-rn', 'r/g/.', 'r/.git')",
    "move hooks away, build another": f"os.rename('r/.git/hooks', 'r/.git/h'); os.mkdir('r/.git/hooks'); put('{_HOOK}', S.token)",
    "move the repository away, build another": f"os.rename('r', 'x'); os.makedirs('r/.git/hooks'); put('{_HOOK}', S.token)",
    "remove .git, build another": f"run('rm', '-rf', 'r/.git'); os.makedirs('r/.git/hooks', exist_ok=True); put('{_HOOK}', S.token)",
    "exchange .git": _EVIL_DIRECTORY + "evil('e'); call('renameat2', -100, ctypes.c_char_p(b'e'), -100, ctypes.c_char_p(b'r/.git'), 2)",
    "exchange the repository": _EVIL_DIRECTORY + "os.mkdir('e'); evil('e/.git'); call('renameat2', -100, ctypes.c_char_p(b'e'), -100, ctypes.c_char_p(b'r'), 2)",
    "exchange hooks": "os.mkdir('e'); put('e/post-merge', S.token); call('renameat2', -100, ctypes.c_char_p(b'e'), -100, ctypes.c_char_p(b'r/.git/hooks'), 2)",
    "exchange the configuration": f"put('e', {_EVIL}); call('renameat2', -100, ctypes.c_char_p(b'e'), -100, ctypes.c_char_p(b'{_CONFIG}'), 2)",
    "whiteout": f"put('e', {_EVIL}); call('renameat2', -100, ctypes.c_char_p(b'e'), -100, ctypes.c_char_p(b'{_CONFIG}'), 4)",
    "hard link and write": f"os.link('{_CONFIG}', 'alias'); append('alias', {_EVIL})",
    "hard link in the object store and write": f"os.makedirs('r/.git/objects/ab', exist_ok=True); os.link('{_CONFIG}', 'r/.git/objects/ab/x'); append('r/.git/objects/ab/x', {_EVIL}); os.unlink('r/.git/objects/ab/x')",
    "hard link by /proc/self/fd": f"d = os.open('{_CONFIG}', os.O_RDONLY); os.link('/proc/self/fd/%d' % d, 'alias', follow_symlinks=True); append('alias', {_EVIL})",
    "hard link from a directory above": f"d = os.open('..', os.O_RDONLY); os.link(os.path.basename(S.dir) + '/{_CONFIG}', os.path.basename(S.dir) + '/alias', src_dir_fd=d, dst_dir_fd=d); append('alias', {_EVIL})",
    "reopen by /proc/self/fd": f"d = os.open('{_HOOK}', os.O_RDONLY); append('/proc/self/fd/%d' % d, S.token)",
    "reopen an O_PATH descriptor": f"d = os.open('{_HOOK}', os.O_PATH); append('/proc/self/fd/%d' % d, S.token)",
    "by /proc/self/cwd": f"append('/proc/self/cwd/{_HOOK}', S.token)",
    "by /proc/self/root": f"append('/proc/self/root' + S.dir + '/{_HOOK}', S.token)",
    "by /proc/PARENT/cwd": f"append('/proc/%d/cwd/%s/{_HOOK}' % (os.getppid(), os.path.basename(S.dir)), S.token)",
    "by /proc/HOST/root": f"append('/proc/%d/root%s/{_HOOK}' % (S.host_pid, S.dir), S.token)",
    "by a link to the hook": f"os.symlink('{_HOOK}', 'l'); append('l', S.token)",
    "by a link to the directory": "os.symlink('r/.git/hooks', 'l'); put('l/pre-commit', S.token)",
    "replace .git by a link": _EVIL_DIRECTORY + "evil('e'); os.rename('r/.git', 'old'); os.symlink('../e', 'r/.git')",
    "replace hooks by a link": "os.mkdir('e'); put('e/post-merge', S.token); os.rename('r/.git/hooks', 'old'); os.symlink('../../e', 'r/.git/hooks')",
    "shared mapping": f"import mmap; d = os.open('{_HOOK}', os.O_RDWR); os.ftruncate(d, 100); m = mmap.mmap(d, 100); m[10:10 + len(S.token)] = S.token.encode(); m.flush()",
    "truncate and pwrite": f"os.truncate('{_HOOK}', 0); append('{_HOOK}', S.token)",
    "sed -i": f"run('sed', '-i', '1a # ' + S.token, '{_HOOK}')",
    "cp --remove-destination": f"put('f', S.token); run('cp', '--remove-destination', 'f', '{_HOOK}')",
    "install": "put('f', S.token); run('install', '-m', '755', 'f', 'r/.git/hooks/pre-commit')",
    "tar": "os.makedirs('t/.git/hooks'); put('t/.git/hooks/pre-commit', S.token); run('tar', '-C', 't', '-cf', 't.tar', '.'); run('tar', '-C', 'r', '-xf', 't.tar')",
    "umount the pin": f"call('umount2', ctypes.c_char_p(b'{_HOOK}'), 2); append('{_HOOK}', S.token)",
    "overlay": f"call('mount', ctypes.c_char_p(S.out.encode()), ctypes.c_char_p(b'r/.git/hooks'), 0, 4096, 0); put('{_HOOK}', S.token)",
    "git init again with a template": "os.makedirs('t/hooks'); put('t/hooks/pre-commit', S.token); run('git', 'init', '-q', '--template=t', 'r')",
    "io_uring": f"run(S.bin + '/uring', '{_HOOK}'); won() if b'ring' in get('{_HOOK}') else 0",
    "from a memory file's program": f"m = os.memfd_create('p'); os.write(m, b'#!/bin/sh\\necho ' + S.token.encode() + b' >> {_HOOK}\\n'); run('/proc/self/fd/%d' % m, pass_fds=[m])",
}  # fmt: skip
for _name, _code in _WAYS.items():
    add("later: ways to a file that exists", _name, _code, _BOTH, prepare=repository("r"))


def _alias(scene: Scene) -> None:
    scene.host.copy_repository(scene.directory / "r")
    os.link(scene.directory / _CONFIG, scene.directory / "alias")


def _hidden_alias(scene: Scene) -> None:
    scene.host.copy_repository(scene.directory / "r")
    (scene.directory / "r/.git/objects/ab").mkdir(exist_ok=True)
    os.link(scene.directory / _CONFIG, scene.directory / "r/.git/objects/ab/alias")


def _host_renames(scene: Scene) -> None:
    """As `git config` and editors do in the host."""
    run_git("-C", str(scene.directory / "r"), "config", "user.name", "changed by the host")


def _renamed_over(scene: Scene) -> None:
    scene.host.copy_repository(scene.directory / "r")
    scene.notes["after_pin"] = True


def _meet(scene: Scene) -> None:
    for _ in range(1000):
        if (scene.directory / "ready").exists():
            break
        time.sleep(0.005)
    _host_renames(scene)
    (scene.directory / "go").write_text("x")


_MEET = "put('ready', 'x')\nfor _ in range(1000):\n  if os.path.exists('go'): break\n  time.sleep(0.005)\n"
add("later: hard links", "an alias of the host's", f"append('alias', {_EVIL})", _BOTH, prepare=_alias)
add("later: hard links", "an alias of the host's in the object store", f"append('r/.git/objects/ab/alias', {_EVIL})", _BOTH, prepare=_hidden_alias)
add("later: hard links", "an alias of a configuration made during the run", f"run('git', 'init', '-q', 'r'); os.link('{_CONFIG}', 'alias')", _BOTH, then=f"append('alias', {_EVIL})")
add("later: hard links", "an alias in the object store, made during the run", f"run('git', 'init', '-q', 'r'); os.makedirs('r/.git/objects/ab'); os.link('{_CONFIG}', 'r/.git/objects/ab/x')", _BOTH, then=f"append('r/.git/objects/ab/x', {_EVIL})")  # fmt: skip
add("later: the host renames", "over the pin, before the command", f"append('{_CONFIG}', {_EVIL})", _BOTH, prepare=repository("r"), between=_host_renames, then=f"append('{_CONFIG}', {_EVIL})")  # fmt: skip
add("later: the host renames", "over the pin, while the command runs", _MEET + f"append('{_CONFIG}', {_EVIL})", _BOTH, prepare=repository("r"), during=_meet, alone=True)
add("later: the host renames", "over the pin, with the old file open", f"d = os.open('{_CONFIG}', os.O_RDONLY)\n" + _MEET + f"append('/proc/self/fd/%d' % d, {_EVIL}); append('{_CONFIG}', {_EVIL})", _BOTH, prepare=repository("r"), during=_meet, alone=True)  # fmt: skip
add("later: the host renames", "over the pin, lock-then-rename after it", _MEET + f"put('{_CONFIG}.lock', {_EVIL}); os.rename('{_CONFIG}.lock', '{_CONFIG}')", _BOTH, prepare=repository("r"), during=_meet, alone=True)  # fmt: skip
_AT_HOST = f"{{ws}}/x/{_HOOK}"
for _fd in ("cwd", "fd/0", "fd/3", "root"):
    add("later: a descriptor of the host", f"/proc/PID/{_fd} of every process", f"for p in os.listdir('/proc'):\n  if p.isdigit() and int(p) != os.getpid():\n    for b in ('workspace/' + os.path.basename(S.dir), os.path.basename(S.dir), S.dir[1:]):\n      try: append('/proc/%s/{_fd}/%s/{_HOOK}' % (p, b), S.token)\n      except OSError: pass", _BOTH, prepare=repository("r"))  # fmt: skip
add("later: a descriptor of the host", "by an inherited directory", f"for d in range(64):\n  try: os.write(os.open('workspace/%s/{_HOOK}' % os.path.basename(S.dir), os.O_WRONLY | os.O_APPEND, dir_fd=d), S.token.encode())\n  except OSError: pass", _BOTH, prepare=repository("r"))  # fmt: skip

# Repositories made during the run.
_MADE = {
    "git init, then a hook": ("run('git', 'init', '-q', 'n'); os.makedirs('n/.git/hooks', exist_ok=True); put('n/.git/hooks/post-merge', S.token)", "n/.git/hooks/post-merge"),
    "git init with a template": ("os.makedirs('t/hooks'); put('t/hooks/post-merge', S.token); run('git', 'init', '-q', '--template=t', 'n')", "n/.git/hooks/post-merge"),
    "mkdir -p and a hook": ("os.makedirs('n/.git/hooks'); put('n/.git/hooks/post-merge', S.token)", "n/.git/hooks/post-merge"),
    "git clone, then a hook": ("run('git', 'clone', '-q', S.ws, 'n'); os.makedirs('n/.git/hooks', exist_ok=True); put('n/.git/hooks/post-merge', S.token)", "n/.git/hooks/post-merge"),
    "git init --bare, then a hook": ("run('git', 'init', '-q', '--bare', 'n'); os.makedirs('n/hooks', exist_ok=True); put('n/hooks/post-merge', S.token)", "n/hooks/post-merge"),
    "a bare repository by hand": (_EVIL_DIRECTORY + "evil('n')", "n/config"),
    "a bare repository by hand, made last by its HEAD": (_EVIL_DIRECTORY + "evil('n'); os.rename('n/HEAD', 'h'); time.sleep(0.01); os.rename('h', 'n/HEAD')", "n/config"),
    "separate git directory": ("run('git', 'init', '-q', '--separate-git-dir', 'g', 'n'); run('git', '-C', 'n', 'config', 'core.fsmonitor', S.token)", "g/config"),
    "git worktree add and config.worktree": ("run('git', 'init', '-q', 'n'); run('git', '-C', 'n', '-c', 'user.name=a', '-c', 'user.email=b', 'commit', '-q', '--allow-empty', '-m', 'm'); run('git', '-C', 'n', 'worktree', 'add', '-q', '../w'); put('n/.git/worktrees/w/config.worktree', '[core]\\n fsmonitor = ' + S.token)", "n/.git/worktrees/w/config.worktree"),
    "a submodule's hook": ("run('git', 'init', '-q', 'n'); os.makedirs('n/.git/modules/m/hooks'); [put('n/.git/modules/m/' + f, 'x') for f in ('HEAD', 'config')]; put('n/.git/modules/m/hooks/post-merge', S.token)", "n/.git/modules/m/hooks/post-merge"),
    "moved there when it was complete": (_EVIL_DIRECTORY + "os.mkdir('x'); evil('x/g'); os.rename('x/g', 'x/.git'); os.rename('x', 'n')", "n/.git/config"),
    "built in the temporary directory and moved": (_EVIL_DIRECTORY + "import tempfile, shutil; t = tempfile.mkdtemp(); evil(t + '/.git'); shutil.move(t, 'n')", "n/.git/config"),
    "renamed from a name that means nothing": (_EVIL_DIRECTORY + "os.mkdir('n'); evil('n/x'); os.rename('n/x', 'n/.git')", "n/.git/config"),
    "a configuration that is a link": (_EVIL_DIRECTORY + f"evil('n/.git'); put('c', {_EVIL}); os.unlink('n/.git/config'); os.symlink('../../c', 'n/.git/config')", "n/.git/config"),
    "hooks that are a link": ("run('git', 'init', '-q', '--template=', 'n'); os.mkdir('h'); put('h/post-merge', S.token); os.symlink('../../h', 'n/.git/hooks')", "n/.git/hooks/post-merge"),
    ".git that is a link": (_EVIL_DIRECTORY + "os.mkdir('n'); evil('e'); os.symlink('../e', 'n/.git')", "n/.git/config"),
    "a hook that is a link": ("run('git', 'init', '-q', 'n'); os.makedirs('n/.git/hooks', exist_ok=True); put('h', S.token); os.symlink('../../../h', 'n/.git/hooks/post-merge')", "n/.git/hooks/post-merge"),
    "a hook that is a hard link": ("run('git', 'init', '-q', 'n'); os.makedirs('n/.git/hooks', exist_ok=True); put('h', S.token); os.link('h', 'n/.git/hooks/post-merge')", "n/.git/hooks/post-merge"),
    "eleven levels down": ("os.makedirs('/'.join('abcdefghijk')); os.chdir('/'.join('abcdefghijk')); run('git', 'init', '-q', '.'); os.makedirs('.git/hooks', exist_ok=True); put('.git/hooks/post-merge', S.token)", "a/b/c/d/e/f/g/h/i/j/k/.git/hooks/post-merge"),
    "inside node_modules": ("os.makedirs('node_modules/p/.git/hooks'); put('node_modules/p/.git/hooks/post-merge', S.token)", "node_modules/p/.git/hooks/post-merge"),
}  # fmt: skip
for _name, (_code, _path) in _MADE.items():
    add("later: repositories made during the run", _name, _code, planted(_path))
_SETTINGS = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.hooksPath", "core.askPass", "core.gitProxy", "core.attributesFile",
    "core.worktree", "core.alternateRefsCommand", "diff.external", "diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge", "filter.x.process",
    "merge.x.driver", "mergetool.x.cmd", "difftool.x.cmd", "credential.helper", "gpg.program", "gpg.ssh.program", "alias.status", "include.path",
    "includeIf.gitdir:/.path", "url.x.insteadOf", "remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs", "remote.origin.proxy",
    "submodule.m.update", "sequence.editor", "pager.log", "protocol.ext.allow", "uploadpack.packObjectsHook", "browser.x.cmd", "man.x.cmd",
    "interactive.diffFilter", "init.templateDir", "trailer.x.command", "tar.x.command", "sendemail.smtpServer", "http.proxy", "imap.tunnel", "instaweb.httpd",
)  # fmt: skip
for _setting in _SETTINGS:
    add("later: settings in a new repository", _setting, f"run('git', 'init', '-q', 'n'); run('git', '-C', 'n', 'config', {_setting!r}, '!' + S.token)", planted("n/.git/config"))
for _name, _text in {
    "continued over lines": "[core]\\n\\tfsmon\\\\\\nitor = x\\n[core]\\n\\tfsmonitor = \\\\\\n%s\\n",
    "in one line": "[core] fsmonitor = %s\\n",
    "with odd case": "[CORE]\\nFsMonitor=%s\\n",
    "with a byte order mark": "\\ufeff[core]\\n\\tfsmonitor = %s\\n",
    "with carriage returns": "[core]\\r\\n\\tfsmonitor = %s\\r\\n",
    "after a NUL": "[user]\\n name = a\\n\\0\\n[core]\\n fsmonitor = %s\\n",
    "after a broken line": "[core\\n[core]\\n fsmonitor = %s\\n",
    "in quotes": "[core]\\n\\tfsmonitor = \\\"%s\\\"\\n",
    "behind a megabyte of comments": "' + '# x\\n' * 300000 + '[core]\\n fsmonitor = %s\\n",
}.items():
    add("later: settings in a new repository", f"fsmonitor {_name}", f"run('git', 'init', '-q', 'n'); put('n/.git/config', '{_text}' % S.token)", planted("n/.git/config"))

# Planted late.


def _late(scene: Scene, output: str) -> bool:
    time.sleep(0.6)
    return planted("n/.git/hooks/post-merge")(scene, output)


_PLANT = "os.makedirs('n/.git/hooks', exist_ok=True); put('n/.git/hooks/post-merge', S.token)"
_LATE = {
    "by a background child": f"if os.fork() == 0:\n  os.setsid(); time.sleep(0.3); {_PLANT}; os._exit(0)",
    "by a daemon": f"if os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(0.3); {_PLANT}\n  os._exit(0)",
    "by one that waits for the leader's end": f"p = os.getppid()\nif os.fork() == 0:\n  os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n  for _ in range(300):\n    if not os.path.exists('/proc/%d' % p) or 'Z' in open('/proc/%d/stat' % p).read().rpartition(') ')[2][:1]: break\n    time.sleep(0.001)\n  {_PLANT}; os._exit(0)",
    "by nohup": "subprocess.Popen(['nohup', 'sh', '-c', 'sleep 0.3; mkdir -p n/.git/hooks; echo ' + S.token + ' > n/.git/hooks/post-merge'], start_new_session=True)",
    "at exit": f"import atexit\natexit.register(lambda: None)\nif os.fork() == 0:\n  {_PLANT}; os._exit(0)\nos.wait()",
}  # fmt: skip
for _name, _code in _LATE.items():
    add("later: planted late", _name, _code, _late, alone=True)

# Hard to see, hard to name.
_HARD = {
    "a newline in a name": ("os.makedirs('a\\nb/.git/hooks'); put('a\\nb/.git/hooks/post-merge', S.token)", "a\nb/.git/hooks/post-merge"),
    "bytes that are no text": ("os.makedirs(b'\\xff\\xfe/.git/hooks'); put(b'\\xff\\xfe/.git/hooks/post-merge', S.token)", os.fsdecode(b"\xff\xfe/.git/hooks/post-merge")),
    "a backslash": ("os.makedirs('a\\\\b/.git/hooks'); put('a\\\\b/.git/hooks/post-merge', S.token)", "a\\b/.git/hooks/post-merge"),
    "a space at the end": ("os.makedirs('a /.git/hooks'); put('a /.git/hooks/post-merge', S.token)", "a /.git/hooks/post-merge"),
    "three dots": ("os.makedirs('.../.git/hooks'); put('.../.git/hooks/post-merge', S.token)", ".../.git/hooks/post-merge"),
    "control characters": ("os.makedirs('\\x1b[2J/.git/hooks'); put('\\x1b[2J/.git/hooks/post-merge', S.token)", "\x1b[2J/.git/hooks/post-merge"),
    "255 bytes": ("n = 'x' * 255; os.makedirs(n + '/.git/hooks'); put(n + '/.git/hooks/post-merge', S.token)", "x" * 255 + "/.git/hooks/post-merge"),
    "a hook's name with a colon": ("run('git', 'init', '-q', 'n'); os.makedirs('n/.git/hooks', exist_ok=True); put('n/.git/hooks/post-merge', S.token); put('n/.git/hooks/post-merge:x', '')", "n/.git/hooks/post-merge"),
    "a directory that nobody may enter": ("os.makedirs('n/.git/hooks'); put('n/.git/hooks/post-merge', S.token); os.chmod('n', 0)", "n/.git/hooks/post-merge"),
    "a directory that nobody may list": ("os.makedirs('n/.git/hooks'); put('n/.git/hooks/post-merge', S.token); os.chmod('n', 0o111)", "n/.git/hooks/post-merge"),
    "a directory that nobody may change": ("os.makedirs('n/.git/hooks'); put('n/.git/hooks/post-merge', S.token); os.chmod('n/.git/hooks', 0o555)", "n/.git/hooks/post-merge"),
    "two hundred closed directories": ("for i in range(200): os.makedirs('n%d/.git/hooks' % i); put('n%d/.git/hooks/post-merge' % i, S.token); os.chmod('n%d' % i, 0o111)", "n199/.git/hooks/post-merge"),
    "closed doors behind closed doors": ("os.makedirs('a/b/c/d/.git/hooks'); put('a/b/c/d/.git/hooks/post-merge', S.token)\nfor p in ('a/b/c/d', 'a/b/c', 'a/b', 'a'): os.chmod(p, 0o111)", "a/b/c/d/.git/hooks/post-merge"),
    "in a flood of thirty thousand names": ("os.mkdir('f')\nfor i in range(30000): os.close(os.open('f/%d' % i, os.O_CREAT | os.O_WRONLY)) if i < 3000 else os.rename('f/%d' % (i % 3000), 'f/%d' % (i % 3000))\nfor i in range(20000): os.chmod('f/1', 0o600 + i % 2)\n" + _PLANT, "n/.git/hooks/post-merge"),
    "made and moved quickly": ("for i in range(50): os.makedirs('a/b%d' % i, exist_ok=True); os.rename('a', 'c%d' % i)\nos.makedirs('c7/.git/hooks'); put('c7/.git/hooks/post-merge', S.token)", "c7/.git/hooks/post-merge"),
    "in an object store, by a link": ("os.makedirs('x.git/refs'); os.makedirs('x.git/objects/aa/p/.git/hooks'); put('x.git/HEAD', 'ref: x\\n'); put('x.git/objects/aa/p/.git/hooks/post-merge', S.token); os.symlink('x.git/objects/aa/p', 'proj')", "proj/.git/hooks/post-merge"),
    "in the host's object store, by a link": ("os.makedirs('r/.git/objects/aa/p/.git/hooks'); put('r/.git/objects/aa/p/.git/hooks/post-merge', S.token); os.symlink('r/.git/objects/aa/p', 'proj')", "proj/.git/hooks/post-merge"),
    "in an object store, by its own path": ("os.makedirs('r/.git/objects/pack/p'); put('r/.git/objects/pack/p/.envrc', S.token)", "r/.git/objects/pack/p/.envrc"),
    "a path of almost 4096 bytes": (
        "n = 4040 - len(S.dir) - 1; k = []\nwhile n > 0: k.append('d' * min(200, n)); n -= 201\nfor p in k: os.mkdir(p); os.chdir(p)\n"
        "os.makedirs('.git'); put('.git/config', '[core]\\n fsmonitor = ' + S.token)\nos.chdir(S.dir); won() if len(S.dir + '/' + '/'.join(k)) < 4095 and os.path.exists(S.dir + '/' + '/'.join(k) + '/.git/config') else 0",
        "LONG",
    ),
}  # fmt: skip


def _long(scene: Scene, output: str) -> bool:
    path = str(scene.directory)
    length = 4040 - len(path) - 1
    while length > 0:
        path += "/" + "d" * min(200, length)
        length -= 201
    return _holds(Path(path) / ".git/config", scene.token)


for _name, (_code, _path) in _HARD.items():
    _alone = "flood" in _name or "closed" in _name
    add("later: hard to see or name", _name, _code, _long if _path == "LONG" else planted(_path), prepare=repository("r") if "r/" in _code else None, alone=_alone, seconds=20.0)  # fmt: skip
_TWO = {
    "hidden in an object store, then moved": ("os.makedirs('x.git/refs'); os.makedirs('x.git/objects/aa/p/.git/hooks'); put('x.git/HEAD', 'ref: x\\n'); put('x.git/objects/aa/p/.git/hooks/post-merge', S.token)", "os.rename('x.git/objects/aa/p', 'n')", "n/.git/hooks/post-merge"),
    "a closed directory, then opened": ("os.makedirs('n/.git/hooks'); put('n/.git/hooks/post-merge', S.token); os.chmod('n', 0)", "os.chmod('n', 0o755)", "n/.git/hooks/post-merge"),
    "a directory, then a repository in it": ("os.makedirs('n/a/b')", "os.makedirs('n/a/b/.git/hooks'); put('n/a/b/.git/hooks/post-merge', S.token)", "n/a/b/.git/hooks/post-merge"),
    "marks removed, then an old store entered": ("os.makedirs('x/refs'); put('x/HEAD', 'ref: x\\n'); os.makedirs('x/objects/aa/p')", "os.unlink('x/HEAD'); os.makedirs('x/objects/aa/p/.git/hooks'); put('x/objects/aa/p/.git/hooks/post-merge', S.token)", "x/objects/aa/p/.git/hooks/post-merge"),
    "an ordinary directory, renamed to .git": ("os.makedirs('n/x/hooks'); put('n/x/hooks/post-merge', S.token); put('n/x/HEAD', 'ref: x')", "os.rename('n/x', 'n/.git')", "n/.git/hooks/post-merge"),
    "a repository of the host's, moved and written": ("os.mkdir('to')", "os.rename('r', 'to/r'); put('to/r/.git/hooks/pre-commit', S.token)", "to/r/.git/hooks/pre-commit"),
    "hooks of a new repository, then written": ("run('git', 'init', '-q', 'n'); os.makedirs('n/.git/hooks', exist_ok=True)", "put('n/.git/hooks/post-merge', S.token)", "n/.git/hooks/post-merge"),
    "configuration of a new repository, then written": ("run('git', 'init', '-q', 'n')", f"append('n/.git/config', {_EVIL})", "n/.git/config"),
    "a sample, then renamed to a hook": ("run('git', 'init', '-q', 'n'); os.makedirs('n/.git/hooks', exist_ok=True); put('n/.git/hooks/post-merge.sample', S.token)", "os.rename('n/.git/hooks/post-merge.sample', 'n/.git/hooks/post-merge')", "n/.git/hooks/post-merge"),
}  # fmt: skip
for _name, (_first, _second, _path) in _TWO.items():
    add("later: in two commands", _name, _first, planted(_path), then=_second, prepare=repository("r") if "'r'" in _second else None)


def _with_worktree(scene: Scene) -> None:
    path = scene.host.copy_repository(scene.directory / _DEPTH / "main")
    run_git("-C", str(path), "worktree", "add", "-q", str(path.parent / "tree"))
