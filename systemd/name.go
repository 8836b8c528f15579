// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	serviceSuffix = ".service"
	maxUnitName   = 255 // bytes, suffix included
	nameBytes     = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@"
)

// unitSuffixes are the unit types of systemd.unit(5).
var unitSuffixes = []string{
	serviceSuffix, ".socket", ".device", ".mount", ".automount", ".swap",
	".target", ".path", ".timer", ".slice", ".scope",
}

// serviceName completes and checks a unit's name by the rules of
// systemd.unit(5). A dot alone makes no suffix: "foo.bar" is
// "foo.bar.service", as systemctl reads it.
func serviceName(unit string) (string, error) {
	suffix := path.Ext(unit)
	if !slices.Contains(unitSuffixes, suffix) {
		unit, suffix = unit+serviceSuffix, serviceSuffix
	}
	if suffix != serviceSuffix {
		return "", fmt.Errorf("%s is not a service: name a unit that ends in %s", unit, serviceSuffix)
	}
	stem := strings.TrimSuffix(unit, serviceSuffix)
	prefix, instance, templated := strings.Cut(stem, "@")
	switch {
	case prefix == "":
		return "", fmt.Errorf("%q is not a unit's name: nothing stands before its suffix", unit)
	case len(unit) > maxUnitName:
		return "", fmt.Errorf("%q is not a unit's name: it has more than %d bytes", unit, maxUnitName)
	case strings.Trim(stem, nameBytes) != "":
		return "", fmt.Errorf(`%q is not a unit's name: only letters, digits and : - _ . \ @ may stand in it`, unit)
	case templated && instance == "":
		return "", fmt.Errorf("%s is a template: name an instance of it, such as %s@NAME%s", unit, prefix, serviceSuffix)
	}
	return unit, nil
}
