package interop

import "strings"

// Entry is an entry of a map, a value of a set or a key of a multimap. Its String takes the place of a name in
// [Thread.Object]: then that is not the object of the name, but what the entry has of the kind.
type Entry struct {
	Of    string // map, mapcache, set, setcache, setmultimap or listmultimap
	Name  string // of that
	Codec string // default, string, long, json or kryo5
	Type  string // of the key: string, integer, long or uuid
	Key   string
}

func (e Entry) String() string {
	return strings.Join([]string{"entry", e.Of, e.Name, e.Codec, e.Type, e.Key}, "|")
}
