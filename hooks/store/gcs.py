"""How Spark reaches Google Cloud Storage."""

import os

OPTIONS = {
    # Hadoop may name another connector (3.5 does), and write a size as this one cannot read it.
    "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
    "spark.hadoop.fs.gs.block.size": f"{64 * 1024 * 1024}",
    # It asks for several ranges of a file by a method that Hadoop has no more since 3.5.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
    # Google's own chain: the file that GOOGLE_APPLICATION_CREDENTIALS names, gcloud's login, the
    # service account of the pod or the machine.
    "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
}


def store_options() -> dict[str, str]:
    """Spark's options for it, none of them secret."""
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")  # as Google's own libraries know it
    if not emulator:
        return OPTIONS
    return OPTIONS | {
        "spark.hadoop.fs.gs.storage.root.url": f"{emulator}/",
        "spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED",
        "spark.hadoop.fs.gs.project.id": "emulated",
        "spark.hadoop.fs.gs.operation.move.enable": "false",
    }
