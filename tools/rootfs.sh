#!/bin/bash
# rootfs.sh DIR: creates the container image's root file system in DIR: the static binary with its
# time zones, this machine's CA certificates, and the directories that a program expects. VERSION,
# COMMIT, BUILD_DATE and ARCH describe the build. It needs no container engine:
# chroot DIR /usr/bin/ingero version.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
root=${1:?rootfs.sh DIR}
version=${VERSION:-v0.0.0} commit=${COMMIT:-unknown} date=${BUILD_DATE:-unknown} arch=${ARCH:-$(go env GOARCH)}

mkdir -p "$root"/{usr/bin,usr/share/doc/ingero,etc/ssl/certs,root,proc,sys,dev,run,var/lib/ingero}
mkdir -m 1777 "$root/tmp"
ln -s ../run "$root/var/run"
CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -o "$root/usr/bin/ingero" \
	-ldflags "-s -w -X main.version=$version -X main.commit=$commit -X main.date=$date" ./cmd/ingero
go run ./tools/parts -binary "$root/usr/bin/ingero" -version "${version#v}" \
	-licences "$root/usr/share/doc/ingero/THIRD_PARTY.txt" -sbom "$root/usr/share/doc/ingero/sbom.json"
cp LICENSE "$root/usr/share/doc/ingero"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"

cat >"$root/etc/passwd" <<-'EOF'
	root:x:0:0:root:/root:/sbin/nologin
	nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
EOF
cat >"$root/etc/group" <<-'EOF'
	root:x:0:
	nogroup:x:65534:
EOF
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
