// Package core implements everything that has an owner and a lease: acquisitions and re-entries, holds, their renewal,
// loss and release, and giving back in the background. A lock package describes its kind by a [kind.Protocol] and gets
// the rest from here.
//
// Package owner has the words, the rules, and a drawing of the life of a grant. A grant in this package is an owner's
// grant together with whatever keeps it alive; a keeper has all grants of a session. Package session has the parts that
// need no owner, package several the holds that consist of several others.
package core
