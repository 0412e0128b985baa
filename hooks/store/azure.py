"""How Spark reaches Azure."""

import os


def store_options() -> dict[str, str]:
    """Spark's options for it: who we are, by the variables that Azure's own tools know.

    Workload identity, where AZURE_FEDERATED_TOKEN_FILE is set (with AZURE_TENANT_ID and
    AZURE_CLIENT_ID); a service principal, where AZURE_CLIENT_SECRET is; else the managed identity
    of the machine, that of AZURE_CLIENT_ID if there are several. Hadoop puts in the values itself,
    on the executors too: none is in Spark's configuration.
    """
    oauth = "spark.hadoop.fs.azure.account.oauth2"
    given = {"spark.hadoop.fs.azure.account.auth.type": "OAuth"}
    if "AZURE_CLIENT_ID" in os.environ:
        given[f"{oauth}.client.id"] = "${env.AZURE_CLIENT_ID}"
    if "AZURE_FEDERATED_TOKEN_FILE" in os.environ:
        provider = "WorkloadIdentityTokenProvider"
        given[f"{oauth}.msi.tenant"] = "${env.AZURE_TENANT_ID}"
        given[f"{oauth}.token.file"] = "${env.AZURE_FEDERATED_TOKEN_FILE}"
    elif "AZURE_CLIENT_SECRET" in os.environ:
        provider = "ClientCredsTokenProvider"
        login = "https://login.microsoftonline.com/${env.AZURE_TENANT_ID}/oauth2/token"
        given[f"{oauth}.client.endpoint"] = login
        given[f"{oauth}.client.secret"] = "${env.AZURE_CLIENT_SECRET}"
    else:
        provider = "MsiTokenProvider"
    providers = "org.apache.hadoop.fs.azurebfs.oauth2"
    given["spark.hadoop.fs.azure.account.oauth.provider.type"] = f"{providers}.{provider}"
    return given
