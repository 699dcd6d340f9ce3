#!/bin/sh
# Makes the keys and signatures beside this file, in a home of their own: `sh make.sh` (the keys differ each time).
set -e
cd "$(dirname "$0")"
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
made() { gpg --batch --yes --quiet --pinentry-mode loopback --passphrase= --faked-system-time "$@" 2>/dev/null; }
created=1767225600 signed=1767312000
made $created --quick-gen-key 'Own <own@example.invalid>' ed25519 cert never
own=$(gpg --batch --list-keys --with-colons own@example.invalid | awk -F: '/^fpr/ {print $10; exit}')
made $created --quick-add-key "$own" ed25519 sign never
made $created --quick-gen-key 'Second <second@example.invalid>' ed25519 sign never
second=$(gpg --batch --list-keys --with-colons second@example.invalid | awk -F: '/^fpr/ {print $10; exit}')
gpg --armor --export "$own" > own.pub.asc
gpg --armor --export "$second" > second.pub.asc
printf '{"a":1}' > document.json
signed() { output=$1; shift; made $signed --armor -u "$own" "$@" -o "$output" document.json; }
signed subkey.asc --detach-sign
signed two.asc -u "$second" --detach-sign
cat subkey.asc subkey.asc > twice.asc
signed text.asc --textmode --detach-sign
signed sha1.asc --digest-algo SHA1 --detach-sign
signed expired.asc --default-sig-expire 1d --detach-sign
for kind in inline:none compressed:zip; do
    signed message --compress-algo "${kind#*:}" --sign
    sed 's/PGP MESSAGE/PGP SIGNATURE/' message > "${kind%:*}.asc"
done
rm message
gpgconf --kill all
rm -r "$GNUPGHOME"
