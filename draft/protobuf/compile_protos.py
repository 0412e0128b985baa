"""Compiles ``schemas/<topic>.proto`` to ``schemas/<topic>.binpb``: what the pipeline reads.

    python scripts/compile_protos.py schemas orders payments

The second file is a serialized ``FileDescriptorSet``, the topic's own file last, after all that it
imports: other files of ``schemas/``, and Protobuf's own. It changes only when the .proto does, so
both are kept in git.
"""

import subprocess
import sys
from pathlib import Path


def main(folder: str, *topics: str) -> int:
    """Compiles the topics' files; 0, or 1 after saying what is wrong with one of them."""
    for topic in topics:
        problem = compile_proto(Path(folder), f"{topic}.proto")
        if problem:
            print(problem, file=sys.stderr)
            return 1
    return 0


def compile_proto(folder: Path, name: str) -> str | None:
    """Compiles ``folder/name``; what is wrong, in protoc's words, and what to do."""
    source = folder / name
    if not source.is_file():
        return f"{source} is missing. Write the topic's messages there, the record's first."
    # Written aside first: a compilation that fails leaves the last good one.
    made = source.with_suffix(".binpb.new")
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}"]
    options = ["--include_imports", f"--descriptor_set_out={made}"]
    run = subprocess.run([*protoc, *options, name], capture_output=True, text=True)  # noqa: S603
    if run.returncode:
        made.unlink(missing_ok=True)
        return f"{source} does not compile. {_advice(run.stderr, folder)}\n{run.stderr}"
    made.replace(source.with_suffix(".binpb"))
    return None


def _advice(words: str, folder: Path) -> str:
    if "No module named" in words:
        return "The compiler is not installed: run `make setup`."
    if "File not found" in words:
        return f"Put every file that it imports into {folder}, at the path that the import has:"
    return "Mend the line that protoc names, and run this again:"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
