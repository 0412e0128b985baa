"""How Spark reaches S3."""

import os

OPTIONS = {
    # The AWS SDK's own chain: the environment, a profile, the role of the pod or the machine.
    "spark.hadoop.fs.s3a.aws.credentials.provider": (
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    ),
    # The other kind logs the whole stack of each read that met a file which was just written anew.
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
}


def store_options() -> dict[str, str]:
    """Spark's options for it, none of them secret."""
    if os.environ.get("AWS_ENDPOINT_URL_S3"):  # not Amazon's: no host has a bucket's name
        return OPTIONS | {"spark.hadoop.fs.s3a.path.style.access": "true"}
    return OPTIONS
