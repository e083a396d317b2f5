//! Every link of every page leads somewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use http::StatusCode;
use taskreel_http::InspectedLog;

use crate::asked::{PLACE, Pages};
use crate::markup::{harmless, links_of};
use crate::seeded::seeded;

/// The most pages with a marked version that are followed: there is one for each pair of versions.
const MARKED_MAX: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn every_link_of_every_page_leads_to_a_page_and_every_anchor_is_there() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let start = format!("{PLACE}/");
    let mut known = BTreeSet::from([start.clone()]);
    let mut todo = VecDeque::from([start]);
    let (mut anchors, mut places) = (BTreeMap::<String, String>::new(), BTreeSet::new());
    let (mut looked, mut marked) = (0, 0);
    while let Some(address) = todo.pop_front() {
        let got = pages.send(http::Method::GET, &address, &[]).await;
        looked += 1;
        if address.contains("/report/") {
            // A file of its own, which leads nowhere else.
            assert_eq!(got.status, StatusCode::OK, "{address}");
            assert!(got.body.contains("<p>End of the report.</p>"), "{address}");
            continue;
        }
        if got.status == StatusCode::SEE_OTHER {
            let to = got.header("location").to_owned();
            assert!(to.starts_with(PLACE), "{address} leads away to {to}");
            if known.insert(to.clone()) {
                todo.push_back(to);
            }
            continue;
        }
        // A search for nothing says so; everything else that is linked is there.
        let is_empty_form = matches!(address.trim_start_matches(PLACE), "/open");
        let wanted = if is_empty_form { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        assert_eq!(got.status, wanted, "{address}: {}", got.body);
        if !got.header("content-type").starts_with("text/html") {
            continue;
        }
        let (links, ids) = links_of(&harmless(&address, &got.body));
        places.extend(ids.into_iter().map(|id| format!("{address}#{id}")));
        for link in links {
            let link = if link.starts_with('#') { format!("{address}{link}") } else { link };
            let (page, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(page, at)| (page, Some(at)));
            let is_marked = page.contains("&cmp=");
            if is_marked && marked >= MARKED_MAX {
                continue;
            }
            if anchor.is_some() {
                anchors.insert(link.clone(), address.clone());
            }
            if known.insert(page.to_owned()) {
                marked += usize::from(is_marked);
                todo.push_back(page.to_owned());
            }
        }
    }
    for (anchor, from) in anchors {
        assert!(places.contains(&anchor), "{from} leads to {anchor}, which is not there");
    }
    assert!(looked > 300, "only {looked} pages were found");
    system.shutdown().await.unwrap();
}
