// Package control has what is asked of runs: commands to execute, resume or abort a run, answers to its calls, and requests to stop it. It has their JSON and
// the ids of runs, and no NATS; package jscontrol stores them.
package control
