// Package ask lets whoever wants a lock tell its holders so.
//
// Asking leaves a note on the server and publishes a message. A holder that wants to know listens, and looks for the
// note when a message comes, when one may have been missed, and every few seconds. The note names the wire owner, so it
// says nothing to the next one. It says when, for holds that follow each other inside a session under one wire owner.
package ask

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watch"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	askScript   = script.LoadLook("lock_ask") // asking twice changes nothing more
	askedScript = script.LoadLook("lock_asked")
)

// Ask asks all holders of the lock for it, and returns how many there are.
func Ask(ctx context.Context, l *core.Lock) (holders int, err error) {
	note := wire.Asked(l.Key())
	c := script.NewCall(askScript).Key(l.Key(), note).Arg(l.Publish(), note)
	n, err := l.RunInt(ctx, "ask", c)
	return int(n), err
}

// Several are holds of several locks.
type Several interface{ Members() []session.Holding }

// Asked returns the channel that is closed when somebody asks for what h holds: for any of its locks.
func Asked(h session.Holding) <-chan struct{} {
	asked, first := h.Asked()
	if !first {
		return asked
	}
	ended := make(chan struct{})
	h.Watch(func(error) { close(ended) })
	var once sync.Once
	tell := func() { once.Do(func() { close(asked) }) }
	switch h := h.(type) {
	case Several:
		f := follower{of: h, tell: tell, members: make(map[session.Holding]bool)}
		f.look()
		go f.follow(asked, ended)
	case *core.Single:
		if !h.Of().Wires.Ownerless {
			h.Session().Start(func() { await(h, ended, tell) })
		}
	}
	return asked
}

// A follower listens for all members of a hold, which may lose some and get others.
type follower struct {
	of      Several
	tell    func()
	members map[session.Holding]bool
}

// follow looks now and then for members that are new.
func (f *follower) follow(asked, ended <-chan struct{}) {
	for {
		select {
		case <-time.After(wait.Interval(-1)):
			f.look()
		case <-asked:
			return
		case <-ended:
			return
		}
	}
}

func (f *follower) look() {
	members := f.of.Members()
	maps.DeleteFunc(f.members, func(m session.Holding, _ bool) bool { return !slices.Contains(members, m) })
	for _, m := range members {
		if f.members[m] {
			continue
		}
		f.members[m] = true
		of, ended := Asked(m), make(chan struct{})
		m.Watch(func(error) { close(ended) })
		go either(of, ended, f.tell)
	}
}

// either tells if asked is closed before the hold has ended.
func either(asked, ended <-chan struct{}, tell func()) {
	select {
	case <-asked:
		tell()
	case <-ended:
	}
}

// A subject is what holders of a session wait for together: the name and the wire owner are the same.
type subject struct {
	note, wire string
	since      time.Duration // 0: whenever
}

// await tells when somebody has asked for the lock of h, unless the hold ends before.
func await(h *core.Single, ended <-chan struct{}, tell func()) {
	s, l, holder := h.Session(), h.Of(), h.Wire()
	note := wire.Asked(l.Key())
	since := h.Since() // what was asked before was asked of another hold, perhaps by the owner of this one
	if l.Wires.Reused {
		since = h.Acquired()
	}
	c := s.Watches().Join(watch.Subject{
		Key: subject{note, holder, since},
		Look: func(ctx context.Context) (bool, error) {
			c := script.NewCall(askedScript).Key(note).Arg(holder)
			defer c.Free()
			sent := s.Now()
			if err := s.Runner().Run(ctx, script.Take, c); err != nil {
				return false, err
			}
			age, err := c.ReadInt()
			// Of what was asked just before or after the hold began, it is not certain which. A later look may tell.
			return age >= 0 && (since == 0 || sent-time.Duration(age)*time.Microsecond >= since), err
		},
		Listen:  func(wake func()) (stop func()) { return s.Listen(note, wake) },
		Woken:   func(wait.Cause) {},
		Trouble: func(error) {},
	})
	defer c.Leave()
	either(c.Done(), ended, func() {
		if err := c.Err(); err != nil && s.Context().Err() == nil {
			session.Warn("is not told who asks", h, err)
			return
		}
		tell()
	})
}
