package scripts

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// These are for a fair lock.

var (
	fairKeys = []string{
		lockKey, wire.FairQueue(lockKey), wire.FairDue(lockKey), wire.FairOurs(lockKey), wire.FairAlive(lockKey),
	}
	fairOwn  = wire.FairChannel(lockKey)
	fairTold = wire.FairTold(lockKey)
)

const javaWait = "300000"

type acquireFair struct {
	grant string // default: 0
	again bool
	try   bool
	token bool
	ttl   string // of the token
	short bool   // without the arguments that may be missing
}

func (a acquireFair) call() call {
	wait, grant := waiterLease, a.grant
	if a.try {
		wait = "0"
	}
	if grant == "" {
		grant = "0"
	}
	c := call{"fairlock_acquire", fairKeys, []string{
		me, soon, halfAMin, fairOwn, fairTold, "1", wait, javaWait, publishes, grant, flag(a.again),
	}}
	if a.token {
		c.keys = append(slices.Clone(fairKeys), tokenKey)
	}
	if a.ttl != "" {
		c.args = append(c.args, a.ttl)
	}
	if a.short {
		c.args = c.args[:2]
	}
	return c
}

type releaseFair struct{ unreached, short bool }

func (r releaseFair) call() call {
	c := call{"fairlock_release", fairKeys, []string{
		me, halfAMin, fairOwn, fairTold, "0", javaWait, publishes, flag(!r.unreached),
	}}
	if r.short {
		c.args = c.args[:1]
	}
	return c
}

type leaveFair struct{}

func (leaveFair) call() call {
	return call{"fairlock_leave", fairKeys, []string{me, javaWait, publishes, fairOwn, fairTold, flag(true), halfAMin}}
}

type forceFair struct{}

func (forceFair) call() call {
	return call{"fairlock_force", fairKeys, []string{javaWait, publishes, fairOwn, fairTold, flag(true), soon}}
}
