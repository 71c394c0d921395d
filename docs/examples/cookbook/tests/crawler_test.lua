local rl, http = require "runloop", require "runloop.http"
local t = require "runloop.test"
local support = require "tests.support"

t.describe("crawler", function()
  local site, asked, address

  -- Serves pages by path; a function is called. Counts concurrent requests.
  local function serve(pages)
    site = { pages = pages, now = 0, most = 0 }
    asked = {}
    local server = assert(http.serve("127.0.0.1:0", function(request)
      site.now = site.now + 1
      site.most = math.max(site.most, site.now)
      asked[request.path] = (asked[request.path] or 0) + 1
      if request.path ~= "/robots.txt" then rl.sleep(1) end
      site.now = site.now - 1
      local page = pages[request.path]
      if not page then return 404 end
      return request.path == "/robots.txt" and page or http.html(page)
    end))
    t.finally(function() server:stop(0) end)
    address = "http://" .. server:address() .. "/"
  end

  local function crawl(...)
    local crawler = support.start("crawler", { address, ... })
    t.equal(crawler:wait { within = 60 }, 0, crawler:errors())
    return crawler:output()
  end

  t.it("has 100 requests at a time, and asks for each page once", function()
    local pages, links = {}, {}
    for i = 1, 250 do
      links[i] = ('<p><A class=x HREF="/page/%d#part">%d</a>'):format(i, i)
      pages["/page/" .. i] = '<a href="/">home</a>'
    end
    pages["/"] = table.concat(links)
    serve(pages)
    t.truthy(crawl():find "251 pages in 4%.%d s, 0 broken, 0 forbidden\n")
    t.equal(site.most, 100)
    for path, count in pairs(asked) do t.equal(count, 1, path) end
  end)

  t.it("lists the links that lead nowhere, and stays on the site", function()
    serve {
      ["/"] = '<a href="a/b?x=1&amp;y=2">a</a> <a href="mailto:me@example.org">me</a> <a href="//other.example/">o</a>',
      ["/a/b"] = "<a href='../gone'>gone</a>",
    }
    t.equal((crawl():gsub("in %S+ s", "in 3 s")), ([[
404  %sgone  from %sa/b?x=1&y=2
3 pages in 3 s, 1 broken, 0 forbidden
]]):format(address, address))
  end)

  t.it("obeys robots.txt", function()
    local links = {}
    for _, path in ipairs { "/open", "/secret/a", "/secret/public/b", "/x/y.pdf", "/x/y.pdf.html" } do
      links[#links + 1] = '<a href="' .. path .. '">x</a>'
    end
    serve {
      ["/"] = table.concat(links),
      ["/robots.txt"] = "User-agent: other\nDisallow: /\n\n# all\nUSER-AGENT: *\nDisallow: /secret/\n"
        .. "Allow: /secret/public/\nDisallow: /*.pdf$ # papers\nDisallow:\nCrawl-delay: 10\n",
      ["/open"] = "", ["/secret/public/b"] = "", ["/x/y.pdf.html"] = "",
    }
    t.truthy(crawl():find "4 pages in 4%d%.%d s, 0 broken, 2 forbidden\n")
    t.equal(asked["/secret/a"] or asked["/x/y.pdf"], nil)
    t.equal(site.most, 1)
  end)

  t.it("has rules for itself, which replace those for all", function()
    local rules = "User-agent: *\nAllow: /\nUser-agent: a\nUser-agent: rlhost-crawler\nDisallow: /"
    serve { ["/"] = "", ["/robots.txt"] = rules }
    t.equal(crawl():match "0 pages.*", "0 pages in 0.0 s, 0 broken, 1 forbidden\n")
  end)
end)
