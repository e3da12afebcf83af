#!/bin/sh
# Fills a folder with what the image adds to its base. The Dockerfile runs it, and so does the test
# that has no container engine: there is one description of the image.
#   [PYTHON=python3.11] image/build.sh TARGET
set -eu

target=$1
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
site="$target/opt/runnerscale"

mkdir -p "$site"
# Wheels only, for the platform that this runs on: the lock has the hashes of all of them.
"$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
  --require-hashes --only-binary=:all: --target "$site" --requirement "$here/image/requirements.lock"
rm -rf "$site/bin" # scripts of dependencies: nobody calls them here

cp -R "$here/src/runnerscale" "$site/runnerscale"
# The embedded servers and the demo need packages that the image does without.
for room in apiserver fake_github node; do rm -rf "${site:?}/runnerscale/$room"; done
find "$site" -name __pycache__ -prune -exec rm -rf {} +

# By hash and unchecked: right whatever the files' times become in a layer, and never written again.
"$python" -m compileall -q --invalidation-mode unchecked-hash "$site"

for name in manager ghalistener; do
  cp "$here/image/entry.py" "$target/$name"
  chmod 0555 "$target/$name"
done
chmod -R a+rX,go-w "$target"
