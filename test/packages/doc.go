// Package packages contains only tests. They build the packages like make packages, and install,
// upgrade and remove them.
package packages
