package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/sseedge/chat"
)

// chatEncoding is the name of the hub encoding that keeps whole records for
// chats. It cannot be the name of a view, because those contain no slash.
const chatEncoding = "/chat"

// subAgentContent is the setting for the output of sub-agents in chats.
type subAgentContent aisdk.SubAgentContent

var subAgentContents = []string{aisdk.Drop: "drop", aisdk.Inline: "inline", aisdk.Data: "data"}

// UnmarshalText parses drop, inline or data.
func (s *subAgentContent) UnmarshalText(text []byte) error {
	i := slices.Index(subAgentContents, string(text))
	if i < 0 {
		return fmt.Errorf("%q: want drop, inline or data", text)
	}
	*s = subAgentContent(i)
	return nil
}

// String returns the name of the setting.
func (s subAgentContent) String() string { return subAgentContents[s] }

// withChats adds the encoding of the chats to the encodings of the hub.
func withChats(encodings map[string]hub.Encode) map[string]hub.Encode {
	all := maps.Clone(encodings)
	if all == nil {
		all = make(map[string]hub.Encode)
	}
	all[chatEncoding] = chat.Encode
	return all
}

// newChats returns the chat service for the AI SDK, or nil if chats are
// disabled. Chats are disabled if there are views: a chat shows everything, so
// a client with a restricted view could read everything through a chat.
func (f *httpServer) newChats(snapshots snapshotAdapter) (*chat.Service, error) {
	b := f.b
	if len(b.cfg.ChatAgents) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	if b.cfg.Views != "" {
		b.log.Warn("chats disabled: views configured")
		return nil, nil //nolint:nilnil // see above
	}
	layout := b.cfg.layout()
	queue, err := jscontrol.NewQueue(b.js, jscontrol.QueueConfig{Layout: layout, Log: b.log})
	if err != nil {
		return nil, err
	}
	box, err := jscontrol.NewInbox(b.js, jscontrol.InboxConfig{Layout: layout})
	if err != nil {
		return nil, err
	}
	tools := b.cfg.ChatClientTools
	return chat.New(chat.Config{
		Snapshots: snapshots.reader, Commands: queue, Inbox: box, Follower: chat.HubFollower{HubFollower: f.hub, Encoding: chatEncoding},
		AgentTypes: b.cfg.ChatAgents, Tenant: b.cfg.Tenant, Origins: b.cfg.CORSOrigins,
		Dialect: aisdk.Options{
			Major: b.cfg.ChatMajor, SubAgents: aisdk.SubAgentContent(b.cfg.ChatSubAgents),
			ClientTool: func(name string) bool { return slices.Contains(tools, name) },
		},
		Bodies: f.bodies, Streams: f.edge.StreamLimiter(),
		Heartbeat: b.cfg.Heartbeat, WriteTimeout: b.cfg.WriteTimeout, DrainPeriod: b.cfg.Drain, Metrics: b.metrics, Log: b.log,
	})
}
