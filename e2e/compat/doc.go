// Package compat tests that this build reads the data of earlier builds. testdata/store.tar.zst holds the data directory of
// `tailrace up` and the answers of its interfaces: tail, event streams, chats, snapshots, pages of messages, trees, lists, dead
// letters, verify, the firehose. TestRecordedStore starts bin/tailrace on a copy and compares every answer byte for byte. Masked
// are the header Date, the random retry delay of each stream, the time of a snapshot request, the anchors in the ids of events,
// which earlier builds do not write, and the texts of problems; their codes are compared.
//
// The archive is recorded with
//
//	make build && go test -tags e2e,record -count=1 -run '^TestRecord$' ./e2e/compat
//
// (TAILRACE_COMPAT_BINARY=path records with another binary.) Record it again only if the recorder covers more, or if a change of
// the stored bytes or of an answer is intended, reviewed and in the changelog; then record with the last build before that change
// if possible. An unintended difference is a defect of the build, not of the archive.
//
// TestOldBinaryReads tests the other direction: an earlier build reads the data of this one. It needs that build:
//
//	TAILRACE_COMPAT_BASE=/path/to/tailrace go test -tags e2e,mixed -count=1 -run '^TestOldBinaryReads$' ./e2e/compat
//
// The base must know TAILRACE_COMMAND_MAX_AGE and TAILRACE_INBOX_MAX_AGE: all streams of the archive keep messages for a hundred
// years.
package compat
