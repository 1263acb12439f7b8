package fold

import "github.com/tailrace/tailrace/chunk"

// Content is what a client is shown of a session, in the types of this package: the snapshots in the forms of dialects are written from it. A view removes what it
// hides from a Content, so no form can show it. It shares memory with the snapshot that it was made from.
type Content struct {
	Session  chunk.Session
	Position chunk.Position // the client reads the events after it
	Anchor   chunk.Anchor   // of the record at Position, 0 if it is unknown
	Status   Status         // present status of the session
	RunID    string         // present run, "" before the first

	Messages     []Message // see Snapshot.AllMessages
	State        chunk.Value
	Pending      []PendingCall
	Structured   []chunk.Value // see Snapshot.OpenData
	Run          Run           // the run at Position
	CheckpointID *string
	Failure      *Failure

	// Before is set if Messages are a page of the conversation: the id to request older messages with, "" if there are none.
	Before *string
}

// Content returns what clients are shown of s. With partial that includes an answer in flight; otherwise everything is in the state just before that answer, and the
// stream after Position has the whole answer. s must be HasAllMessages.
func (s Snapshot) Content(partial bool) Content {
	at := s
	if !partial {
		at = s.BeforeAnswer()
	}
	return at.contentOf(&s, at.AllMessages())
}

// Content returns what clients are shown of the snapshot of the page, with the messages of the page only.
func (p *MessagePage) Content() Content {
	list, older := p.Messages()
	c := p.snap.contentOf(&p.now, list)
	c.Before = &older
	return c
}

func (s *Snapshot) contentOf(now *Snapshot, list []Message) Content {
	return Content{
		Session: s.Session, Position: s.Position, Anchor: s.Anchor, Status: now.Status, RunID: now.Run.ID, Messages: list, State: s.State,
		Pending: s.PendingCalls(), Structured: s.OpenData(), Run: s.Run, CheckpointID: s.CheckpointID, Failure: s.Failure,
	}
}
