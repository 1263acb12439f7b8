// Package compat tests that a build reads the data of the first tagged version. No version is tagged yet, so there is no
// archive, and all tests have the tag record.
//
// At the tag, record the archive testdata/store.tar.zst, commit it, and remove the tag from all files but record_test.go:
//
//	make build && go test -tags e2e,record -count=1 -run '^TestRecord$' ./e2e/compat
//
// The archive holds the data directory of `tailrace up` and the answers of its interfaces: tail, event streams, chats,
// snapshots, pages of messages, trees, lists, dead letters, verify, the firehose. TestRecordedStore starts bin/tailrace on a
// copy and compares every answer byte for byte. Masked are the header Date, the random retry delay of each stream, the time of
// a snapshot request, and the texts of problems; their codes are compared.
//
// (TRTEST_COMPAT_BINARY=path records with another binary.) Record it again only if the recorder covers more, or if a change of
// the stored bytes or of an answer is intended, reviewed and in the changelog; then record with the last build before that change
// if possible. An unintended difference is a defect of the build, not of the archive.
package compat
