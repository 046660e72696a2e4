package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/scope"
)

// What packages use that make something of several locks or sessions.

// Length is the lease of the holds that are taken through the lock.
func (l *Lock) Length() time.Duration { return l.length() }

// Slot is that of the lock's key; 0 unless the server is a cluster.
func (l *Lock) Slot() uint16 { return l.slot }

// Of is the lock of the hold.
func (h *Single) Of() *Lock { return h.lock }

// Told is how many clients of others were told of the release of the last hold of the name.
func (h *Single) Told() int {
	others := h.tenure.listeners()
	if h.lock.session.Subscribed(h.lock.Channel) {
		others--
	}
	return others
}

// An Age is what a server tells of itself with a grant.
type Age struct {
	Replied bool      // the server has answered, whatever it was
	At      time.Time // then
	Up      int64     // seconds; below zero: it does not tell
	Run     int64     // which run of the server it is
}

// TryWithAge makes one attempt, and has the server tell its age. The error is without what the lock is.
func (l *Lock) TryWithAge(ctx context.Context) (*Single, Age, error) {
	a := acquisition{age: true}
	h, err := a.call(ctx, l, "try lock", 0)
	if err != nil {
		err = errors.Unwrap(err)
	}
	answer := &a.answer
	return h, Age{Replied: answer.at > 0, At: l.session.Time(answer.at), Up: answer.up, Run: answer.run}, err
}

// OwnerOf is the owner that ctx carries; nil if it carries none.
func OwnerOf(ctx context.Context) *Owner { return ownerOf(ctx) }

// As returns ctx with the owner.
func (o *Owner) As(ctx context.Context) context.Context { return scope.WithOwner(ctx, o) }
