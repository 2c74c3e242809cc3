# ruff: noqa: F821 - the files stand above this text.



def _unpack():
    import base64
    import os
    import sys
    import tempfile

    folder = tempfile.mkdtemp(prefix="function-")
    for files, decode in ((TEXT, str.encode), (BINARY, base64.b64decode)):
        for name, content in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(decode(content))
    sys.path.insert(0, folder)
    os.chdir(folder)
    return os.path.join(folder, HANDLER)


__file__ = _unpack()
with open(__file__, "rb") as _source:
    exec(compile(_source.read(), __file__, "exec"))
