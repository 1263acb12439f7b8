package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/sseedge/chat"
	"github.com/tailrace/tailrace/sseedge/hub"
)

// chatEncoding is the name under which the hub keeps whole records, for chats. A
// view cannot have it: their names have no slash.
const chatEncoding = "/chat"

// said is what a chat is told of the words of sub-agents.
type said aisdk.Content

var contents = []string{aisdk.Drop: "drop", aisdk.Inline: "inline", aisdk.Data: "data"}

// UnmarshalText reads one of the words.
func (s *said) UnmarshalText(text []byte) error {
	i := slices.Index(contents, string(text))
	if i < 0 {
		return fmt.Errorf("%q: want drop, inline or data", text)
	}
	*s = said(i)
	return nil
}

// String is the word.
func (s said) String() string { return contents[s] }

// withChats are the hub's encodings with that of the chats.
func withChats(encodings map[string]hub.Encode) map[string]hub.Encode {
	all := maps.Clone(encodings)
	if all == nil {
		all = make(map[string]hub.Encode)
	}
	all[chatEncoding] = chat.Encode
	return all
}

// newChats serves the AI SDK. It is nil where there are to be no chats. Beside
// views there are none: a chat shows everything, and who is to see less would
// only have to ask there.
func (f *front) newChats(snapshots pages) (*chat.Service, error) {
	b := f.b
	if len(b.cfg.ChatAgents) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	if b.cfg.Views != "" {
		b.log.Warn("no chats: views do not apply to them")
		return nil, nil //nolint:nilnil // see above
	}
	layout := b.cfg.layout()
	queue, err := commands.New(b.js, commands.Config{Layout: layout, Log: b.log})
	if err != nil {
		return nil, err
	}
	box, err := inbox.New(b.js, inbox.Config{Layout: layout})
	if err != nil {
		return nil, err
	}
	tools := b.cfg.ChatClientTools
	return chat.New(chat.Config{
		Snapshots: snapshots.reader, Commands: queue, Inbox: box, Live: chat.Hub{Hub: f.hub, Encoding: chatEncoding},
		AgentTypes: b.cfg.ChatAgents, Tenant: b.cfg.Tenant, Origins: b.cfg.CORSOrigins,
		Dialect: aisdk.Options{
			Major: b.cfg.ChatMajor, SubAgents: aisdk.Content(b.cfg.ChatSubAgents),
			ClientTool: func(name string) bool { return slices.Contains(tools, name) },
		},
		Bodies: f.bodies, Room: f.edge.Room(),
		Heartbeat: b.cfg.Heartbeat, Patience: b.cfg.WriteTimeout, Spread: b.cfg.Drain, Metrics: b.metrics, Log: b.log,
	})
}
