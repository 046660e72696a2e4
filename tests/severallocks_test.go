package tests

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// severalLocks are locks of two kinds as one. What locks tell of their holders there is not.
type severalLocks struct {
	untold
	*multilock.MultiLock
	first *rlock.Mutex
}

func newSeveralLocks(s *holdfast.Session, name string, fixed time.Duration) locker {
	first := rlock.New(s, name, &rlock.Options{FixedLease: fixed})
	other := name + "'"
	if name == "" {
		other = "x"
	}
	second := fairlock.New(s, other, &fairlock.Options{FixedLease: fixed, WaiterLease: time.Second})
	return severalLocks{MultiLock: multilock.New(second, first), first: first}
}

func (l severalLocks) Locked(ctx context.Context) (bool, error) { return l.first.Locked(ctx) }

func (severalLocks) RemainingLease(context.Context) (time.Duration, error) {
	return 0, errors.ErrUnsupported
}
