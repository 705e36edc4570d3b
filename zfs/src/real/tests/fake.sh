#!/bin/sh
# Stands in for zpool and zfs: it is linked to by their names, and does what the test wrote beside the link.
here=${0%/*}
tool=${0##*/}
echo "$tool $*" >> "$here/calls"
. "$here/$tool.does"
