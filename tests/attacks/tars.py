"""Tar streams that an attacker would write."""

import io
import tarfile
from typing import Literal

Form = Literal[0, 1, 2]
Entry = tuple[str, bytes, dict[str, object]]


def entry(name: str, content: bytes = b"", **fields: object) -> Entry:
    """A member; the fields are those of TarInfo."""
    return name, content, fields


def folder(name: str = ".") -> Entry:
    """A directory; the first member of a folder is `.`."""
    return entry(name, type=tarfile.DIRTYPE, mode=0o755)


def symlink(name: str, text: str) -> Entry:
    """A symbolic link."""
    return entry(name, type=tarfile.SYMTYPE, linkname=text)


def hard_link(name: str, original: str) -> Entry:
    """A hard link to a member, or to what an attacker wants."""
    return entry(name, type=tarfile.LNKTYPE, linkname=original)


def headers(*entries: Entry, form: Form = tarfile.PAX_FORMAT) -> bytes:
    """Members without the two blocks that end a tar."""
    data = b""
    for name, content, fields in entries:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        for field, value in fields.items():
            setattr(info, field, value)
        data += info.tobuf(form, "utf-8", "surrogateescape")
        data += content + b"\0" * (-len(content) % tarfile.BLOCKSIZE)
    return data


def tar(*entries: Entry, form: Form = tarfile.PAX_FORMAT) -> bytes:
    """A whole tar."""
    return headers(*entries, form=form) + b"\0" * 1024


def stream(*entries: Entry) -> io.BytesIO:
    """A whole tar, to read from."""
    return io.BytesIO(tar(*entries))


def with_size(header: bytes, size: int) -> bytes:
    """Return a header with another size and the matching checksum."""
    field = b"\x80" + size.to_bytes(11, "big")
    changed = header[:124] + field + header[136:148] + b" " * 8 + header[156:]
    return changed[:148] + b"%06o\0 " % sum(changed) + changed[156:]


FOLDER = headers(folder())
PAX = tarfile.TarInfo("p")
PAX.type = tarfile.XHDTYPE
PAX_HEADER = PAX.tobuf(tarfile.USTAR_FORMAT)
LONG = tarfile.TarInfo("././@LongLink")
LONG.type = tarfile.GNUTYPE_LONGNAME
LONG_HEADER = LONG.tobuf(tarfile.GNU_FORMAT)
FILE_HEADER = tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT)
