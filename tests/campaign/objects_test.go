package campaign

import (
	"maps"
	"slices"
	"strconv"
)

// An object is something on the servers that processes share.
type object struct{ Kind, Name string }

// A thing is a kind of object, as the campaign plays and judges it.
type thing struct {
	fenced  bool // its holds have tokens
	queued  bool // it is granted in the order of asking
	java    bool // Redisson plays it, too
	permits int  // so many may have a part of it at a time; 0: one, or many who share
	lasting bool // what is taken has no lease: whoever forgets it keeps it
	forced  bool // somebody frees it by force now and then
}

// What the campaign plays.
var things = map[string]thing{
	"rlock":           {java: true},
	"rlock fenced":    {fenced: true},
	"rlock forced":    {forced: true},
	"fairlock":        {queued: true, java: true},
	"fairlock fenced": {queued: true, fenced: true},
	"rwlock":          {java: true},
	"setlock":         {},
	"several":         {},
	"redlock":         {},
	"permits":         {permits: 3, java: true},
	"semaphore":       {permits: 20, lasting: true, java: true},
	"latch":           {lasting: true},
	"leader":          {fenced: true, queued: true},
}

func (o object) String() string { return o.Kind + " " + strconv.Quote(o.Name) }

func (o object) thing() thing { return things[o.Kind] }

func allKinds() []string { return slices.Sorted(maps.Keys(things)) }

// parts are the objects that one of several consists of, which are also taken by themselves.
func (o object) parts() []object { return []object{{o.Kind, o.Name + " a"}, {o.Kind, o.Name + " b"}} }
