// Package core is what has an owner and a lease: acquisitions and re-entries, holds, their renewal, loss and release,
// and what is given back in the background. A lock package describes its kind by a [kind.Protocol] and gets all that from
// here.
//
// Package owner has the words, the rules, and the life of a grant as a drawing. A grant here is one with what
// keeps it alive; a keeper has all grants of a session. Package session has what does not need an owner, package
// several what is several holds at once.
package core
