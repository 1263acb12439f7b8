package control

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/tailrace/tailrace/chunk"
)

// The id of a run is a function of the request for it. So a request that is sent twice, through another edge or a minute later, names the same run and is the
// same command. Each id is a token of 36 characters.

// ExecuteRunID returns the id of the run that answers a message of a user. message is the id that the client gave it, the last one if it sent several messages.
func ExecuteRunID(s chunk.Session, message string) string {
	return runID("execute", s.Tenant, s.Root, s.ID, message)
}

// RegenerateRunID returns the run that regenerates an answer: it replaces the message that the given run wrote.
func RegenerateRunID(s chunk.Session, message, run string) string {
	return runID("regenerate", s.Tenant, s.Root, s.ID, message, run)
}

// ResumeRunID returns the run that continues a run which is paused or was interrupted.
func ResumeRunID(run string) string { return runID("resume", run) }

// SubagentSession returns the session of the sub-agent that a call of a run starts.
func SubagentSession(s chunk.Session, run, call string) chunk.Session {
	return s.Child("sub-" + hash("session", s.Tenant, s.Root, s.ID, run, call))
}

// ForkSession returns the session of a fork that is requested without an id. request identifies the request and the client that makes it.
func ForkSession(origin chunk.Session, request string) chunk.Session {
	return chunk.RootSession(origin.Tenant, "fork-"+hash("fork", origin.Tenant, origin.ID, request))
}

// SubagentRunID returns the first run in that session.
func SubagentRunID(s chunk.Session, run, call string) string {
	return runID("run", s.Tenant, s.Root, s.ID, run, call)
}

func runID(parts ...string) string { return "run-" + hash(parts...) }

// hash hashes the parts, each after its length: ("a", "bc") differs from ("ab", "c").
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var size [8]byte
		for i, n := 0, uint64(len(part)); i < len(size); i, n = i+1, n>>8 {
			size[i] = byte(n)
		}
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
