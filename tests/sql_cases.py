"""A private PostgreSQL server and tables of rows for the tests of SQL."""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from sparsenam.export.targets.sql_dialects import DIALECTS

EPOCH = datetime(1970, 1, 1)


def program(name):
    """Return the path of a program of PostgreSQL, which Debian keeps outside of PATH; None where there is none."""
    places = [path / name for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    return shutil.which(name) or next((str(path) for path in places if path.exists()), None)


def why_no_server():
    """Return why no server can be started, or None."""
    if program("initdb") is None or program("pg_ctl") is None:
        return "no PostgreSQL server found: make sql-tests installs it where that can be"
    if os.geteuid() == 0 and user_of_server() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return None


def user_of_server():
    """Return the user that a server started by root runs as."""
    users = {user.pw_name for user in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in users), None)


def run(*command, folder):
    """Run a program of PostgreSQL, as another user where this one is root."""
    user = {"user": user_of_server(), "group": pwd.getpwnam(user_of_server()).pw_gid} if os.geteuid() == 0 else {}
    subprocess.run([program(command[0]), *command[1:]], check=True, capture_output=True, cwd=folder, **user)


@contextmanager
def server():
    """Start a server on a Unix socket in a temporary folder, give its address, and end it."""
    folder = Path(tempfile.mkdtemp(prefix="sql_"))  # a short path: those of sockets have at most 107 bytes
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user_of_server())
        data = folder / "data"
        run("initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync", folder=folder)
        settings = f"-c listen_addresses='' -k {folder} -c fsync=off -c jit=off"
        run("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-o", settings, "-w", "start", folder=folder)
        try:
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop", folder=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def create_in_postgres(connection, model, rows, table):
    """Make a temporary table of the rows, with the types that the page on SQL names."""
    dialect = DIALECTS["postgres"]
    columns = {column.name: [row[column.name] for row in rows] for column in model.columns}
    made = {column.name: postgres_column(column, columns[column.name]) for column in model.columns}
    listed = "".join(f", {dialect.identifier(name)} {kind}" for name, (kind, _) in made.items())
    name = dialect.identifier(table)
    connection.execute(f"CREATE TEMPORARY TABLE {name} (id INTEGER{listed})")
    with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for row in zip(range(len(rows)), *(cells for _, cells in made.values()), strict=True):
            copy.write_row(row)


def postgres_column(column, cells):
    """Return the type and the cells of a column."""
    if column.kind == "date":
        return "TIMESTAMP", [None if cell is None else EPOCH + micros(cell * 86_400e6) for cell in cells]
    if column.kind == "duration":
        return "INTERVAL", [None if cell is None else micros(cell * 1e6) for cell in cells]
    kinds = {type(cell) for cell in cells if cell is not None}
    if column.kind == "number" or kinds <= {float}:
        return "DOUBLE PRECISION", cells
    if kinds == {bool}:
        return "BOOLEAN", cells
    return "TEXT", [None if cell is None else str(cell) for cell in cells]


def micros(count):
    return timedelta(microseconds=round(count))
