package entry

import (
	"encoding/binary"
	"reflect"
	"unicode/utf16"
	"unicode/utf8"
)

// The numbers by which Kryo knows the types that it has by default.
const (
	kryoInteger = 2
	kryoString  = 3
	kryoLong    = 9
)

// kryoUUID is how Kryo writes the name of another type: the last letter has the highest bit set.
const kryoUUID = "\x01\x00java.util.UUI" + "\xc4"

// Kryo5Codec is the codec that Redisson has by default. It is the one without references to objects, new Kryo5Codec();
// with useReferences, text has another form.
func Kryo5Codec[K Key](key K) []byte {
	switch v := reflect.ValueOf(key); v.Kind() {
	case reflect.String:
		return appendKryoText([]byte{kryoString}, v.String())
	case reflect.Int32:
		return appendKryoNumber([]byte{kryoInteger}, zigzag(v.Int()))
	case reflect.Int64:
		return appendKryoNumber([]byte{kryoLong}, zigzag(v.Int()))
	default:
		id := uuid(v)
		bytes := binary.LittleEndian.AppendUint64([]byte(kryoUUID), binary.BigEndian.Uint64(id[:]))
		return binary.LittleEndian.AppendUint64(bytes, binary.BigEndian.Uint64(id[8:]))
	}
}

// zigzag makes small numbers of those that are next to zero on either side.
func zigzag(n int64) uint64 { return uint64(n<<1 ^ n>>63) }

// appendKryoNumber appends a number by 7 bits in each byte, the lowest first; a ninth byte has the last 8.
func appendKryoNumber(bytes []byte, n uint64) []byte {
	for range 8 {
		if n < 0x80 {
			break
		}
		bytes = append(bytes, byte(n)|0x80)
		n >>= 7
	}
	return append(bytes, byte(n))
}

// appendKryoText appends text. If it has 2 to 32 characters, and all are ASCII, these are its bytes, and the last
// has the highest bit set. Otherwise the length comes first, in UTF-16 units, plus one, and each unit is in UTF-8
// by itself.
func appendKryoText(bytes []byte, text string) []byte {
	units := utf16.Encode([]rune(text))
	if ascii := len(units) == len(text); ascii && len(text) >= 2 && len(text) <= 32 {
		bytes = append(bytes, text...)
		bytes[len(bytes)-1] |= 0x80
		return bytes
	}
	const lengthFirst, more = 0x80, 0x40
	if length := uint64(len(units) + 1); length < more {
		bytes = append(bytes, byte(length)|lengthFirst)
	} else {
		bytes = appendKryoNumber(append(bytes, byte(length%more)|lengthFirst|more), length/more)
	}
	for _, u := range units {
		if utf16.IsSurrogate(rune(u)) { // Go would not write half a character
			bytes = append(bytes, 0xe0|byte(u>>12), 0x80|byte(u>>6)&0x3f, 0x80|byte(u)&0x3f)
		} else {
			bytes = utf8.AppendRune(bytes, rune(u))
		}
	}
	return bytes
}
