package session

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A session looks after calls of its own that wait for something that it holds itself. As a rule a program waits like
// that for a moment, while one of its goroutines has the lock. But a nested call that was not given the hold's context
// waits for its own caller, for ever.

// stalled is how long at least a call has waited, for something that has been held as long, before it says so.
const stalled = time.Second

// lookAfter makes the session look after its waiters, as long as there are any.
func (s *Session) lookAfter() {
	if !s.watching.Load() && s.watching.CompareAndSwap(false, true) {
		s.Start(s.watch)
	}
}

// watch goes its rounds until nobody waits.
func (s *Session) watch() {
	for Pause(s.ctx, stalled/2) == nil {
		if s.round() {
			if k := s.kept(); k != nil {
				s.notice(k)
			}
			continue
		}
		s.presence.Itself(nil)
		s.watching.Store(false)
		if !s.round() || !s.watching.CompareAndSwap(false, true) { // otherwise it came just now
			return
		}
	}
}

// round begins another round, and reports whether anybody waits.
func (s *Session) round() bool {
	single, joint := s.lines.Round(), s.joint.Round()
	return single || joint
}

// notice asks calls that have waited for long for something that has been held for long to say so, and publishes what
// they wait for.
func (s *Session) notice(k Keeper) {
	var names []string
	k.HeldSince(never, s.Now()-stalled, func(h Held) {
		if h.Ownerless { // nobody can re-enter it, and another one may come back
			return
		}
		if single, joint := s.lines.Notice(h.Line), s.joint.Notice(h.Line); single || joint {
			names = append(names, h.Line.Key)
		}
	})
	s.presence.Itself(names)
}

// A Place is where in the program something was called.
type Place []uintptr

// deepest is how many of the callers a place has.
const deepest = 32

// here is the place of the caller.
func here() Place {
	pcs := make(Place, deepest)
	return pcs[:runtime.Callers(2, pcs)]
}

type placeKey struct{}

// WithPlace returns ctx with the place of the caller, for calls of other goroutines.
func WithPlace(ctx context.Context) context.Context {
	return context.WithValue(ctx, placeKey{}, here())
}

// PlaceOf returns the place that ctx carries, or else the place of the caller.
func PlaceOf(ctx context.Context) Place {
	if p, ok := ctx.Value(placeKey{}).(Place); ok {
		return p
	}
	return here()
}

// shown is how many callers outside of this module a text has.
const shown = 5

// String is the place as a person reads it, without the library itself: the caller, and the caller's caller.
func (p Place) String() string {
	if len(p) == 0 {
		return ""
	}
	var callers []string
	frames := runtime.CallersFrames(p)
	for more := true; more && len(callers) < shown; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function == "" || len(callers) == 0 && ours(f.Function) || strings.HasPrefix(f.Function, "runtime.") {
			continue
		}
		file := f.File[strings.LastIndexByte(f.File, '/')+1:]
		callers = append(callers, f.Function+" ("+file+":"+strconv.Itoa(f.Line)+")")
	}
	return strings.Join(callers, ", called by ")
}

// orHow is the place, or how to have it noted.
func (p Place) orHow() string {
	if p == nil {
		return "unknown: set Options.Places to have it noted"
	}
	return p.String()
}

// ours reports whether a function is one of the library.
func ours(function string) bool {
	_, inside, ok := strings.Cut(function, "holdfast-go/holdfast")
	if !ok {
		return false
	}
	dir, _, _ := strings.Cut(strings.TrimPrefix(inside, "/"), ".")
	dir, _, _ = strings.Cut(dir, "/")
	switch dir {
	case "", "internal", "barrier", "fairlock", "gocron", "latch", "leader", "multilock", "once", "rlock", "rwlock",
		"semaphore", "setlock":
		return true
	}
	return false
}

// LogStall logs that a call with that label has waited for a second for something that its own session has held for
// that long, and where it was taken.
func (s *Session) LogStall(label *Label, held time.Duration, taken Place) {
	s.Logger().Warn("holdfast: waits for what this session holds", "kind", label.Title(), "name", label.Name,
		"held", held.Round(time.Millisecond), "waits_at", here().String(), "taken_at", taken.orHow(),
		"hint", "a nested call must be given the Context of the hold, or it waits for itself")
}
