package sinktest

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// Log is a log in the order of the stream.
type Log = turntest.Log

// Tree returns the records of the tree of a session among the first n records of a log.
func Tree(log Log, of chunk.Session, n int) Log {
	return slices.DeleteFunc(slices.Clone(log[:n]), func(rec chunk.Record) bool { return rec.Session.Tree() != of.Tree() })
}

// Remaining returns the records that a reader gets when the cleanups of a log have deleted what they remove.
func Remaining(log Log) Log {
	removed := make([]bool, len(log))
	for i := range log {
		for _, j := range removedBy(log, i) {
			removed[j] = true
		}
	}
	var left Log
	for i, rec := range log {
		if !removed[i] {
			left = append(left, rec)
		}
	}
	return left
}

// RemovedBy returns the records that record i removes, if it is that of a cleanup.
func RemovedBy(log Log, i int) (removed Log) {
	for _, j := range removedBy(log, i) {
		removed = append(removed, log[j])
	}
	return removed
}

func removedBy(log Log, i int) (removed []int) {
	b, ok := truncation(log, i)
	if !ok {
		return nil
	}
	for j := begin(log, i); j < i; j++ {
		if log[j].Session == log[i].Session && b.Removes(log[j].Ordinal) {
			removed = append(removed, j)
		}
	}
	return removed
}

// truncation returns the cleanup of record i, and false if the record is not one that has an effect.
func truncation(log Log, i int) (chunk.Truncated, bool) {
	rec := log[i]
	b, ok := chunk.BodyOf[chunk.Truncated](rec)
	if !ok || rec.Type != chunk.TypeTruncated {
		return b, false
	}
	for _, earlier := range log[begin(log, i):i] {
		if earlier.Session == rec.Session && earlier.Epoch > rec.Epoch {
			return b, false // of a superseded writer
		}
	}
	return b, true
}

// begin returns the index at which the ordinals of the session of record i have begun the last time.
func begin(log Log, i int) int {
	for j := i; j >= 0; j-- {
		if log[j].Session == log[i].Session && log[j].Ordinal == 1 {
			return j
		}
	}
	return 0
}
