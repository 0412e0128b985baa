#!/bin/sh
# Sets up what is missing: uv, Java, the packages. Says what it does; silent when all is there.
set -eu
cd "$(dirname "$0")/.."

UV_VERSION=0.13.9
JAVA_VERSION=17
NEWEST_JAVA=21

fail() {
  echo "$*" >&2
  exit 1
}

can_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo --non-interactive true 2>/dev/null; }
}

# Installs the first of these packages that Debian has here.
install() {
  as_root=
  [ "$(id -u)" = 0 ] || as_root="sudo --non-interactive"
  $as_root apt-get update -qq
  while [ $# -gt 1 ] && ! apt-cache show "$1" >/dev/null 2>&1; do shift; done
  echo "Installing $1"
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

# The major version of a java command; nothing when it does not run. Most say it in a file, which saves starting a JVM.
java_major() {
  found=$(command -v "$1") || return 0
  release=$(dirname "$(dirname "$(readlink -f "$found")")")/release
  if [ -f "$release" ]; then
    sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$release"
  else
    "$1" -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p'
  fi
}

set_up_uv() {
  command -v uv >/dev/null && return
  [ -x .tools/bin/uv ] && return
  command -v python3 >/dev/null || fail "Python 3 is missing. Install it, then run this again."
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    can_install || fail "Neither uv nor Python's venv module is here. Install uv, or the package python3-venv."
    install python3-venv
  fi
  echo "Installing uv $UV_VERSION into .tools/"
  python3 -m venv .tools
  .tools/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
}

set_up_java() {
  if [ -n "${JAVA_HOME:-}" ]; then
    major=$(java_major "$JAVA_HOME/bin/java")
    { [ "${major:-0}" -ge "$JAVA_VERSION" ] && [ "$major" -le "$NEWEST_JAVA" ]; } ||
      fail "JAVA_HOME is $JAVA_HOME, which holds Java ${major:-none}." \
        "Point it at Java $JAVA_VERSION to $NEWEST_JAVA, or unset it."
    return
  fi
  major=$(java_major java)
  [ "${major:-0}" -le "$NEWEST_JAVA" ] ||
    fail "java is Java $major, which is too new for Spark." \
      "Point JAVA_HOME at Java $JAVA_VERSION to $NEWEST_JAVA."
  [ "${major:-0}" -ge "$JAVA_VERSION" ] && return
  can_install ||
    fail "Java $JAVA_VERSION to $NEWEST_JAVA is missing (found: ${major:-none})." \
      "Install it, on Debian 12 or later: apt-get install default-jre-headless"
  # Debian 13 no longer has Java 17; the one that it takes instead will do.
  install "openjdk-$JAVA_VERSION-jre-headless" default-jre-headless
}

set_up_packages() {
  [ -d .venv ] && return
  echo "Installing the packages of pyproject.toml into .venv/"
  uv=$(command -v uv || echo .tools/bin/uv)
  "$uv" sync --quiet
}

set_up_uv
set_up_java
set_up_packages
