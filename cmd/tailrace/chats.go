package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/runs"
	"github.com/tailrace/tailrace/sseedge/agentserver"
	"github.com/tailrace/tailrace/sseedge/chat"
)

// subAgentContent is the setting for the output of sub-agents in chats.
type subAgentContent aisdk.SubAgentContent

var subAgentContents = []string{aisdk.Drop: "drop", aisdk.Inline: "inline", aisdk.Data: "data"}

// UnmarshalText parses drop, inline or data.
func (s *subAgentContent) UnmarshalText(text []byte) error {
	i := slices.Index(subAgentContents, string(text))
	if i < 0 {
		return errors.New("want drop, inline or data")
	}
	*s = subAgentContent(i)
	return nil
}

// aisdkOptions returns the form of the AI SDK's events.
func (c config) aisdkOptions() aisdk.Options {
	tools := c.ChatClientTools
	return aisdk.Options{
		Major: c.ChatMajor, SubAgents: aisdk.SubAgentContent(c.ChatSubAgents),
		ClientTool: func(name string) bool { return slices.Contains(tools, name) },
	}
}

// mountAgents adds the surfaces that start agents to the edge: the chats of the
// AI SDK, and the HTTP API for other systems. Both are disabled if no agents are
// configured.
func (f *httpServer) mountAgents() error {
	b := f.b
	if len(b.cfg.ChatAgents) == 0 {
		if b.cfg.AgentServer != "" {
			return usageError{errors.New("chat-agent is empty, want the agents that agent-server may start")}
		}
		return nil
	}
	reaper, err := b.reaper()
	if err != nil {
		return err
	}
	client, err := runs.New(b.js, runs.Config{
		AgentTypes: b.cfg.ChatAgents, Layout: b.cfg.layout(), Reaper: reaper, Storage: b.storage, AuditLog: f.audit, Log: b.log,
		RequestTimeout: requestTimeout, MaxRuns: f.b.cfg.limits.runs, MaxSessionBytes: int64(f.b.cfg.limits.Session.Bytes),
	})
	if err != nil {
		return err
	}
	_, err = chat.New(f.edge, client.Service(), chat.Config{Dialect: b.cfg.aisdkOptions()})
	if err != nil || b.cfg.AgentServer == "" {
		return err
	}
	if _, err := agentserver.New(f.edge, client.Service(), agentserver.Config{Prefix: b.cfg.AgentServer}); err != nil {
		return usageError{fmt.Errorf("agent-server: %w", err)}
	}
	return nil
}
