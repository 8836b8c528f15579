// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"
)

// maxArguments bounds what is read: more is a mistake, not arguments.
const maxArguments = 1 << 20

var errTooLong = fmt.Errorf("they are longer than %d bytes", maxArguments)

// readBounded reads r to its end, or fails when there is too much.
func readBounded(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxArguments+1))
	if err == nil && len(raw) > maxArguments {
		err = errTooLong
	}
	return raw, err
}

// parseObject reads one JSON object. gjson takes the first of two equal keys
// and reads 3x as 0, so everything that it is lenient about is refused first.
func parseObject(raw []byte) (map[string]gjson.Result, error) {
	if !json.Valid(raw) {
		return nil, errors.New("the arguments are not valid JSON")
	}
	root := gjson.ParseBytes(raw)
	if !root.IsObject() {
		return nil, fmt.Errorf("the arguments are a JSON %s, not an object", pythonType(root))
	}
	if err := refuseDuplicates(root, "", maxDepth); err != nil {
		return nil, err
	}
	return root.Map(), nil
}

// maxDepth is far more than any argument needs. gjson reads what is inside a
// level once for each level around it.
const maxDepth = 32

// refuseDuplicates looks for an object, at any depth, that has a key twice.
func refuseDuplicates(value gjson.Result, where string, depth int) error {
	if !value.IsObject() && !value.IsArray() {
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("the arguments are nested more than %d levels deep", maxDepth)
	}
	seen := map[string]bool{}
	isObject := value.IsObject()
	var err error
	value.ForEach(func(key, item gjson.Result) bool {
		name := key.String()
		if isObject && seen[name] {
			err = fmt.Errorf("the arguments have %s%s twice", where, name)
			return false
		}
		seen[name] = isObject
		err = refuseDuplicates(item, where+name+".", depth-1)
		return err == nil
	})
	return err
}
