package survey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Deadlock is a list of calls. Each waits for the owner of the next one, and the last one for the owner of the first.
// Its JSON is part of the interface of the command holdfast.
type Deadlock struct {
	Since   *time.Time `json:"since,omitempty"`   // the last call has waited, by the clock of its process
	Perhaps bool       `json:"perhaps,omitempty"` // a session waits for something it holds itself, maybe elsewhere in it
	Waits   []*Blocked `json:"waits"`
}

// A Blocked call waits.
type Blocked struct {
	Session string            `json:"session"`
	Process *presence.Process `json:"process,omitempty"`
	Kind    string            `json:"kind,omitempty"`
	Name    string            `json:"name"`
	Owner   string            `json:"owner,omitempty"` // the id that has it
}

// Deadlocks looks for owners that wait for each other, in the sessions' reports of calls that have waited for half a
// second and more; and for sessions that wait for something they hold themselves. If there are any, it takes about
// three quarters of a second, at most two seconds.
func Deadlocks(ctx context.Context, client rueidis.Client) (all []*Deadlock, err error) {
	ids, err := sessions(ctx, client)
	if err != nil {
		return nil, err
	}
	var f deadlock.Finder
	var told map[string]presence.Told
	var certain []deadlock.Cycle
	for began := time.Now(); told == nil || f.Suspects() > len(certain) && time.Since(began) < 2*time.Second; {
		if told != nil && !pause(ctx, presence.Round) {
			return nil, ctx.Err()
		}
		if told, err = presence.Ask(ctx, client, ids); err != nil {
			return nil, err
		}
		certain = f.Look(tellings(told))
	}
	process := func(session string) *presence.Process {
		p := told[session].Process
		return &p
	}
	for _, c := range certain {
		since := time.UnixMilli(c.Since())
		d := &Deadlock{Since: &since}
		for _, l := range c {
			d.Waits = append(d.Waits, &Blocked{l.Session, process(l.Session), l.Kind, l.Name, l.At})
		}
		all = append(all, d)
	}
	for _, session := range slices.Sorted(maps.Keys(told)) {
		for _, name := range told[session].Itself {
			all = append(all, &Deadlock{Perhaps: true, Waits: []*Blocked{
				{Session: session, Process: process(session), Name: name},
			}})
		}
	}
	return all, nil
}

func tellings(told map[string]presence.Told) (all []deadlock.Telling) {
	for _, session := range slices.Sorted(maps.Keys(told)) {
		t := told[session]
		all = append(all, t.Telling(session))
	}
	return all
}

// pause reports whether ctx lasts for d.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// sessions returns all sessions that publish reports.
func sessions(ctx context.Context, client rueidis.Client) (ids []string, err error) {
	nodes, failed, err := masters(ctx, client)
	if err != nil {
		return nil, err
	}
	if len(failed) > 0 {
		return nil, fmt.Errorf("%s could not be asked: %w", failed[0], cluster.ErrFailed)
	}
	for _, node := range nodes {
		err := Keys(ctx, node, wire.SessionKey("*"), "string", func(keys []string) error {
			for _, key := range keys {
				ids = append(ids, wire.SessionOfKey(key))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}
