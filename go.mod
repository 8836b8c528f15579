module github.com/lastgood/lastgood

go 1.26.0
