#!/bin/bash
# package.sh [VERSION]: builds the release files in bin/packages (or $OUT), for each architecture in
# $ARCHES: ingero_VERSION_linux_ARCH.tar.gz with ingero at its top, the deb, the rpm (or only the
# kinds in $KINDS), a bill of materials, and SHA256SUMS of all files. The same commit and version
# give the same bytes. make packages calls it with the version of git.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC CGO_ENABLED=0

version=${1:-$(git describe --tags --match 'v[0-9]*' 2>/dev/null || echo v0.0.0)}
version=v${version#v}
commit=${COMMIT:-$(git rev-parse --short=12 HEAD)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git show -s --format=%ct HEAD)}
export SOURCE_DATE_EPOCH
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
out=$(realpath -m "${OUT:-bin/packages}")
read -ra arches <<<"${ARCHES:-amd64 arm64}"
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"
go run ./tools/man "$stage/common" "$date"

for arch in "${arches[@]}"; do
	name=ingero_${version#v}_linux_$arch
	dir=$stage/$arch
	mkdir "$dir"
	GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -o "$dir/ingero" \
		-ldflags "-s -w -X main.version=$version -X main.commit=$commit -X main.date=$date" ./cmd/ingero
	go run ./tools/parts -binary "$dir/ingero" -licences "$dir/THIRD_PARTY.txt" -sbom "$dir/sbom.json" \
		-version "${version#v}" -date "$date"
	cp -r "$stage/common/." "$dir"
	cp LICENSE README.md "$dir"
	find "$dir" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	tar -C "$dir" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - \
		ingero LICENSE README.md THIRD_PARTY.txt sbom.json completions man | gzip -9n >"$out/$name.tar.gz"
	cp "$dir/sbom.json" "$out/$name.sbom.json"

	gzip -9n "$dir"/man/*
	cp deploy/package/{ingero.service,ingero.yaml,postinst,prerm,postrm} "$dir"
	find "$dir" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	# 1.2.3-4-gabc is four commits after 1.2.3: to dpkg and rpm it is 1.2.3+4.gabc
	plain=${version#v}
	plain=${plain/-/+}
	for kind in ${KINDS:-deb rpm}; do
		(root=$PWD && cd "$dir" &&
			ARCH=$arch VERSION=${plain//-/.} go run "$nfpm" package \
				--config "$root/deploy/package/nfpm.yaml" --packager "$kind" --target "$out/$name.$kind" >/dev/null)
	done
done
(cd "$out" && sha256sum ingero_"${version#v}"_* >SHA256SUMS)
ls -l "$out"
