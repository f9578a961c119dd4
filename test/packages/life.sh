#!/bin/bash
# life.sh OLD.deb NEW.deb TRAIN: tests the life of a deb on a temporary copy of this machine's
# file system, with a training loop to trace. It runs in its own mount namespace, as root,
# and exits at the first error.
set -euo pipefail
old=$1 new=$2 train=$3

work=$(mktemp -d)
mount -t tmpfs -o size=1g none "$work"
mkdir "$work"/{upper,work,tree}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/tree"
mount --rbind /proc "$work/tree/proc"
mount --rbind /sys "$work/tree/sys"
for dir in run tmp var/tmp; do # hides the machine's files from the agent
	mount -t tmpfs none "$work/tree/$dir"
done
mount --bind /dev "$work/tree/dev"
cp "$old" "$work/tree/tmp/old.deb"
cp "$new" "$work/tree/tmp/new.deb"

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
inside() { chroot "$work/tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
member() { inside setpriv --reuid=12345 --regid=12345 --groups="$1" env HOME=/nonexistent "${@:2}"; }
fail() { echo "life: $*" >&2; exit 1; }
until_() { # until_ WHAT COMMAND...
	local what=$1 left=300
	shift
	until "$@"; do
		left=$((left - 1))
		[ $left -gt 0 ] || fail "waited in vain for $what"
		read -rt 0.1 <> <(:) || true
	done
}
version() { [ "$(inside ingero version | cut -d' ' -f2)" = "v$1" ] || fail "it is $(inside ingero version), not $1"; }
group() { inside getent group ingero | cut -d: -f3; }
traces() { inside ingero status >/dev/null 2>&1; }
trace() { # starts a recording trace of the loop
	(exec chroot "$work/tree" /usr/bin/ingero trace --pid "$loop" --db /var/lib/ingero/ingero.db >"$work/trace" 2>&1) &
	agent=$!
	until_ "the trace: $(cat "$work/trace")" traces
}
boxed() { [[ $(readlink "/proc/$container/exe") == */box/usr/bin/ingero ]]; }
container() { # starts ingero as in a container: at the package's path, below another root
	mkdir "$work/box"
	mount -t tmpfs none "$work/box"
	install -D "$work/tree/usr/bin/ingero" "$work/box/usr/bin/ingero"
	mkfifo "$work/never"
	(exec chroot "$work/box" /usr/bin/ingero mcp <>"$work/never" >/dev/null 2>&1) &
	container=$!
	until_ "the container" boxed
	umount -l "$work/box" # its path is then /usr/bin/ingero for all
	[ "$(inside readlink "/proc/$container/exe")" = /usr/bin/ingero ] || fail "the container has another path"
}
count() { member "${2:-0}" ingero query "SELECT count(*) AS n FROM $1" --csv --db /var/lib/ingero/ingero.db 2>/dev/null | tail -n +2 | tr -dc 0-9; }
has_calls() { [ "$(count events "$@")" -gt 0 ] 2>/dev/null; }
sessions() { [ "$(count sessions "$(group)")" = "$1" ]; }
ended() { ! kill -0 "$agent" 2>/dev/null; }
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }

"$train" --steps 10000000 --cpu-us 2000 >/dev/null &
loop=$!

install -d -m 0700 "$work/tree/var/lib/ingero/ingero.db.d" # root recorded before
echo "install"
quiet inside dpkg --no-triggers -i /tmp/old.deb
version 0.1.0
[ "$(stat -c '%a %U' "$work/tree/var/lib/ingero")" = "2750 root" ] || fail "folder $(stat -c '%a %U' "$work/tree/var/lib/ingero")"
quiet inside ingero config check
inside ingero config show | grep -q 'update-check *false */etc/ingero/ingero.yaml' || fail "updates are asked for"
inside systemd-analyze verify --man=no ingero.service 2>"$work/log" || fail "unit: $(cat "$work/log")"
[ ! -s "$work/log" ] || fail "unit: $(cat "$work/log")"
trace
until_ "calls for the group" has_calls "$(group)"
! has_calls 0 || fail "anybody reads what is recorded"

echo "upgrade, while it traces"
echo 'node: mine' >>"$work/tree/etc/ingero/ingero.yaml"
key=$work/tree/var/lib/ingero/dashboard.key
install -m 0600 /dev/null "$key"
quiet inside dpkg --no-triggers -i /tmp/new.deb
version 0.2.0
grep -q mine "$work/tree/etc/ingero/ingero.yaml" || fail "settings are lost"
[ "$(stat -c %a "$key")" = 600 ] || fail "the upgrade lets others read the dashboard's key"
traces || fail "the upgrade ended the trace"
kill -TERM "$agent"
wait "$agent" || fail "the trace ended badly: $(cat "$work/trace")"
trace
until_ "calls of both" has_calls "$(group)"
until_ "both recordings" sessions 2
kill -TERM "$agent"
wait "$agent" || fail "the trace ended badly: $(cat "$work/trace")"

echo "roll back"
quiet inside dpkg --no-triggers -i /tmp/old.deb
version 0.1.0
has_calls "$(group)" || fail "what is recorded cannot be read any more"
quiet inside ingero db verify --db /var/lib/ingero/ingero.db

echo "remove, while it traces"
gid=$(group)
trace
container
quiet inside dpkg --no-triggers -r ingero
until_ "the trace to end" ended
kill -0 "$container" || fail "the removal ended the process of a container"
kill "$container"
[ ! -e "$work/tree/usr/bin/ingero" ] || fail "the program is still there"
! inside getent group ingero >/dev/null || fail "the group is still there"
! compgen -G "$work/tree/run/ingero*" || fail "a lock is left"
[ -z "$(find "$work/tree/var/lib/ingero" \( -group "$gid" -o -perm /077 \))" ] || fail "others may read what is left"
[ -e "$work/tree/etc/ingero/ingero.yaml" ] || fail "settings are lost"

echo "install again"
quiet inside dpkg --no-triggers -i /tmp/new.deb
has_calls "$(group)" || fail "what was recorded cannot be read any more"
inside ingero config show | grep -q '^node *mine' || fail "settings are lost"

echo "purge"
trace
quiet inside dpkg --no-triggers -P ingero
until_ "the trace to end" ended
! inside getent group ingero >/dev/null || fail "the group is still there"
left=$(find "$work/upper" "$work/tree/run" "$work/tree/tmp" "$work/tree/sys/fs/bpf" -iname '*ingero*' -not -type c 2>/dev/null || true)
[ -z "$left" ] || fail "this is left: $left"
echo "nothing is left"
