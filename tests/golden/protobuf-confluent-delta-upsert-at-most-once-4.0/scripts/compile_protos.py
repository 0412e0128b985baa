"""Compiles ``schemas/<topic>.proto`` to ``schemas/<topic>.binpb``: what the pipeline reads.

    python scripts/compile_protos.py [--check] schemas/orders.proto ...

The second file is a serialized ``FileDescriptorSet``, the topic's own file last, after all that it
imports: other files of ``schemas/``, and Protobuf's own. Both are kept in git. What is of the same
text still is left as it is. ``--check`` compiles nothing and says what has fallen behind.
"""

import subprocess
import sys
from pathlib import Path

from orders_pipeline.protobuf_files import is_stale, with_digest


def main(*arguments: str) -> int:
    """0; or 1 after saying what is wrong."""
    act = check_proto if "--check" in arguments else compile_proto
    sources = [Path(name) for name in arguments if name != "--check"]
    problems = [problem for source in sources if (problem := act(source))]
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


def compile_proto(source: Path) -> str | None:
    """Compiles *source*; what is wrong, in protoc's words, and what to do."""
    if not source.is_file():
        return f"{source} is missing. Write the topic's messages there, the record's first."
    made, folder = source.with_suffix(".binpb"), source.parent
    # Not by the files' times: git gives both that of the checkout.
    if check_proto(source) is None:
        return None
    print(f"Compiling {source}")
    # Written aside first: a compilation that fails leaves the last good one.
    aside = source.with_suffix(".new")
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}"]
    options = ["--include_imports", f"--descriptor_set_out={aside}", source.name]
    run = subprocess.run([*protoc, *options], capture_output=True, text=True, check=False)  # noqa: S603
    if run.returncode:
        aside.unlink(missing_ok=True)
        return f"{source} does not compile. {_advice(run.stderr, folder)}\n{run.stderr}"
    aside.write_bytes(with_digest(aside.read_bytes(), folder))
    aside.replace(made)
    return None


def check_proto(source: Path) -> str | None:
    """Says so if what *source* was compiled to is of another text than it has now."""
    made = source.with_suffix(".binpb")
    if made.is_file() and not is_stale(made.read_bytes(), source.parent):
        return None
    return f"{made} is not what {source} says now. Run `make protos`, and commit both."


def _advice(words: str, folder: Path) -> str:
    if "No module named" in words:
        return "The compiler is not installed: run `make setup`."
    if "File not found" in words:
        return f"Put every file that it imports into {folder}, at the path that the import has:"
    return "Mend the line that protoc names, and run this again:"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
