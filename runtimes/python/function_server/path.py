"""Sets the search path of modules.

1. the Function's directory, as Python itself does for a script;
2. the standard library;
3. the Function's dependencies, in .local of its directory;
4. the packages installed in the base image;
5. the packages of the runtime: Bottle, Flask, requests and others.

So a dependency takes precedence over the same package of the runtime, in any
version, and only a file of the Function itself can replace a module of the
standard library. The server's own modules and waitress are imported before the
first of these is on the path, so they cannot be replaced.
"""

import os
import site
import sys

PACKAGES = ".local"
INSTALLED = ("site-packages", "dist-packages")


def arrange(config, app):
    """Set sys.path for a handler; app is the directory of the server."""
    own = [app, os.path.join(app, "site-packages")]
    others = [entry for entry in sys.path if entry not in own]
    installed = [entry for entry in others if os.path.basename(entry) in INSTALLED]
    standard = [entry for entry in others if entry not in installed]
    packages = os.path.join(config.directory, PACKAGES)
    dependencies = [packages] if os.path.isdir(packages) else []
    sys.path[:] = [config.directory, *standard, *dependencies, *installed, *own]
    if dependencies and any(name.endswith(".pth") for name in os.listdir(packages)):
        site.addsitedir(packages)
