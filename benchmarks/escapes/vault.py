"""A process of the host with a secret in its environment, its memory and a file that nobody else has a name for."""

import ctypes
import json
import os
import sys

secret = os.environ["VAULT_SECRET"].encode()
buffer = ctypes.create_string_buffer(secret, 64)
path = os.path.join(sys.argv[1], "vault-file")
descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.write(descriptor, secret)
os.unlink(path)
print(json.dumps({"pid": os.getpid(), "address": ctypes.addressof(buffer), "fd": descriptor}), flush=True)
for line in sys.stdin:
    if line.strip() == "memory":
        print(buffer.value.decode("utf-8", "replace"), flush=True)
    else:
        os.lseek(descriptor, 0, os.SEEK_SET)
        print(os.read(descriptor, 100).decode("utf-8", "replace"), flush=True)
