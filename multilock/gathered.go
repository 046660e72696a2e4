package multilock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
)

// gathered are the holds that a call has so far, each at the place of its member.
type gathered []*holdfast.Hold

// letGo gives all of them back, at once. It waits for that until ctx ends, and a little longer; it goes on all the
// same.
func (g gathered) letGo(ctx context.Context) {
	var all sync.WaitGroup
	if !slices.ContainsFunc(g, func(h *holdfast.Hold) bool { return h != nil }) {
		return
	}
	for _, h := range g {
		if h != nil {
			all.Go(func() { _ = h.Release() }) // its session goes on if it is not known whether that was done
		}
	}
	back := make(chan struct{})
	go func() {
		all.Wait()
		close(back)
	}()
	select {
	case <-back:
		return
	case <-ctx.Done():
	}
	select {
	case <-back:
	case <-time.After(session.Grace):
	}
}
