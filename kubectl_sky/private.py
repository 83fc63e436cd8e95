"""Folders and files that only this user can change: caches, state and settings.

Everything that outlives a command is opened here. A folder or file that another user owns or can
write to is never read or written, because that user controls its contents.
"""

import sys

from kubectl_sky.unsafe import Unsafe

if sys.platform == "win32":
    from kubectl_sky.private_windows import Folder, read, replace
else:
    from kubectl_sky.private_posix import Folder, read, replace

__all__ = ["Folder", "Unsafe", "read", "replace"]
