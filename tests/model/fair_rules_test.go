package model_test

// fairRules are the rules of a fair lock's scripts besides. False drops one.
type fairRules struct {
	forgetsGranted bool // who is granted the lock by a release is nowhere in the queue any more
	messageLast    bool // who is told has the lock; without: the server may refuse the rest
	keepsUnheard   bool // who lives, but does not hear, comes back to its place; without: it loses that
	ownName        bool // a release grants only to those who wait for this name; without: also to those of x, for {x}
	alwaysForgets  bool // whoever is granted the lock by a call, too
	listensBehind  bool // a waiter behind others that do not know it listens to these, too
	ownPlace       bool // a grant takes the grantee out of ours; without: whoever is the first there
	buries         bool // a call drops the dead; without: a release alone does
}

// allFairRules is the design.
func allFairRules() lineRules {
	r := allLineRules()
	r.fairRules = fairRules{
		forgetsGranted: true, messageLast: true, keepsUnheard: true, ownName: true, alwaysForgets: true,
		listensBehind: true, ownPlace: true, buries: true,
	}
	return r
}

// fairBounds keep the search finite, and choose its subject.
type fairBounds struct {
	fair     bool // the line is Redisson's queue, and a client of Redisson, X, may stand there
	pops     int8 // how often that drops the first in the queue though it lives
	redisson int8 // how often it wants the lock
	dies     bool // … and may die as it waits
	twin     bool // B waits for the lock {x}, which another one has for ever
	refuses  int8 // how often the server refuses to grant
	silent   bool // no session is subscribed at first
}
