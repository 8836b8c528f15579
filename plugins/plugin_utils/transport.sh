# shellcheck shell=sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What transport.py has the host run, with the words ACTION ... It needs POSIX
# sh, ls and sha256sum. It is sent as the argument of `printf %b`, which is why
# its only backslashes are in newlines.
#
#   call OS/MACHINE=SHA256... [sent=NAME]  run the binary for this machine with
#                                          arguments from stdin, then remove NAME
#   store NAME SHA256 SIZE PART            append stdin to PART; with SIZE bytes it
#                                          is checked and becomes NAME
#
# What it says itself is one line, "lastgood: WORD DETAIL". After "begin" comes
# the output of the binary.
set -fu
umask 077

# All of standard input is read, or else ssh takes the end for a lost connection.
answer() {
	cat >/dev/null
	printf "lastgood: %s %s\n" "$1" "$2"
	exit 0
}

# Root trusts no HOME: become may leave that of another user. The kernel knows the
# user without a process of its own.
find_folder() {
	user=""
	while read -r key _ id _; do
		[ "$key" != Uid: ] || user=$id
	done </proc/self/status
	case $user in
	"") answer unusable "there is no /proc" ;;
	0) folder=/var/cache/lastgood ;;
	*) folder=$HOME/.cache/lastgood ;;
	esac
}

# Nobody else can have put, or can put, a file into the folder: the files, it and
# every folder on the way belong to root or to this user, and nobody else may
# write to them or, where a folder is sticky like /tmp, replace what is in it.
require_private() {
	way=$folder
	set -- / "$@"
	while [ -n "$way" ]; do
		set -- "$@" "$way"
		way=${way%/*}
	done
	listing=$(LC_ALL=C ls -ldn "$@") || answer unusable "$folder can not be looked at"
	judge <<-END || answer unusable "$folder is within reach of another user"
	$listing
	END
}

judge() {
	while read -r mode _ owner _; do
		case $owner in 0 | "$user") ;; *) return 1 ;; esac
		case $mode in
		d????????[tT]*) ;;
		?????w* | ????????w*) return 1 ;;
		esac
	done
}

# A digest is good until the file or the boot changes: a host that lost power may
# have lost what it had not written to its disk yet.
is_checked() {
	read -r boot </proc/sys/kernel/random/boot_id || return 1
	# shellcheck disable=SC3013 # a shell that does not have -nt says no
	[ "$1.checked" -nt "$1" ] && read -r checked <"$1.checked" && [ "$checked" = "$boot" ] && return
	has_sum "$1" "$2" || return 1
	echo "$boot" >"$1.checked" || :
}

has_sum() {
	found=$(sha256sum <"$1") || found=""
	[ "${found%% *}" = "$2" ]
}

call() {
	machine=$(uname -sm)
	machine=${machine%% *}/${machine#* }
	sum="" sent=""
	for pair in "$@"; do
		case $pair in
		"$machine"=*) sum=${pair#*=} ;;
		sent=*) sent=${pair#*=} ;;
		esac
	done
	[ -n "$sum" ] || answer unsupported "$machine"
	find_folder
	folder=$(cd -P "$folder" 2>/dev/null && pwd -P) || answer missing "$machine"
	binary=$folder/$sum
	[ -e "$binary" ] || answer missing "$machine"
	if [ -e "$binary.checked" ]; then
		require_private "$binary" "$binary.checked"
	else
		require_private "$binary"
	fi
	is_checked "$binary" "$sum" || answer missing "$machine"
	[ -x "$binary" ] || answer unusable "$folder is on a file system where programs can not run"
	echo "lastgood: begin"
	[ -n "$sent" ] || exec "$binary" -
	status=0
	"$binary" - || status=$?
	rm -f "$folder/$sent"
	exit "$status"
}

store() {
	name=$1 sum=$2 size=$3 part=$4
	find_folder
	mkdir -p "$folder" || answer unusable "$folder can not be made"
	folder=$(cd -P "$folder" && pwd -P) || answer unusable "$folder can not be entered"
	require_private
	part=$folder/$part
	cat >>"$part" || discard "$folder can not be written to"
	have=$(wc -c <"$part")
	[ "$have" -ge "$size" ] || answer partial "$((have))"
	has_sum "$part" "$sum" || discard "what arrived in $folder is not what was sent"
	chmod 0500 "$part" || discard "$folder can not be written to"
	mv -f "$part" "$folder/$name" || discard "$folder can not be written to"
	sweep
	answer stored "$folder/$name"
}

discard() {
	rm -f "$part"
	answer unusable "$1"
}

# Old versions of the binary, and what interrupted calls left behind.
sweep() {
	kept=0
	# shellcheck disable=SC2045 # the names are ours: digests
	for file in $(ls -t "$folder"); do
		case $file in candidate-* | *.checked) continue ;; esac
		kept=$((kept + 1))
		[ "$kept" -le 4 ] || rm -f "$folder/$file" "$folder/$file.checked"
	done
	for pattern in ".*" "candidate-*"; do
		find "$folder" -type f -name "$pattern" -mmin +1440 -exec rm -f {} + || :
	done
}

command -v sha256sum >/dev/null || answer unusable "there is no sha256sum"
action=$1
shift
"$action" "$@"
